"""Integer divisions that cannot end the process.

In: code for a CPU, host code of kernels too, with ``arith.divsi``, ``divui``, ``remsi`` and ``remui``, or affine maps
that divide. Out: the same, dividing by 1 where the divisor is 0, or where the quotient of the smallest number and -1
would not fit.

MLIR leaves such a division undefined, and a GPU gives some number; on x86 it would be a signal, for one element of an
array, or for an array without elements whose extents host code divides.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals, opwalk
from aot.lower.analysis.elements import element_type

_SIGNED = frozenset({"arith.divsi", "arith.remsi"})
_UNSIGNED = frozenset({"arith.divui", "arith.remui"})
_OF_INDICES = {
    "index.divs": arith.DivSIOp,
    "index.divu": arith.DivUIOp,
    "index.rems": arith.RemSIOp,
    "index.remu": arith.RemUIOp,
    "index.ceildivs": arith.CeilDivSIOp,
    "index.ceildivu": arith.CeilDivUIOp,
    "index.floordivs": arith.FloorDivSIOp,
}
"""The same, by names of a dialect of their own."""


def guard(module: ir.Module) -> None:
    """Rewrite all divisions whose divisor is not a harmless constant."""
    for op in opwalk.named(module, *_OF_INDICES):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_OF_INDICES[op.name](*op.operands).result)
        op.erase()
    # Affine maps and the rounding divisions are made of the plain ones.
    mlir.run_passes(module, ["lower-affine", "arith-expand"], "expanding divisions")
    for op in opwalk.named(module, *_SIGNED, *_UNSIGNED):
        dividend, divisor = op.operands
        if literals.whole(divisor) in (None, 0) or (literals.whole(divisor) == -1 and op.name in _SIGNED):
            with ir.InsertionPoint(op), op.location:
                op.operands[1] = _harmless(dividend, divisor, signed=op.name in _SIGNED)


def _harmless(dividend: ir.Value, divisor: ir.Value, *, signed: bool) -> ir.Value:
    bad = _equals(divisor, 0)
    if signed:
        element = element_type(divisor.type)
        bits = 64 if isinstance(element, ir.IndexType) else element.width
        overflow = arith.AndIOp(_equals(dividend, -(1 << (bits - 1))), _equals(divisor, -1)).result
        bad = arith.OrIOp(bad, overflow).result
    return arith.SelectOp(bad, _constant(divisor.type, 1), divisor).result


def _equals(value: ir.Value, number: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, value, _constant(value.type, number)).result


def _constant(kind: ir.Type, number: int) -> ir.Value:
    attribute = literals.integer(element_type(kind), number)
    if isinstance(kind, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
    return arith.ConstantOp(kind, attribute).result
