"""Integer divisions that cannot end the process.

In: CPU code with ``arith.divsi``, ``divui``, ``remsi`` and ``remui``. Out: the same, dividing by 1 where the divisor is
0, or where the quotient of the smallest number and -1 would not fit.

MLIR leaves such a division undefined, and a GPU gives some number; on x86 it would be a signal, for one element of an
array.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower import literals

_SIGNED = frozenset({"arith.divsi", "arith.remsi"})
_UNSIGNED = frozenset({"arith.divui", "arith.remui"})


def guard(module: ir.Module) -> None:
    """Rewrite all divisions whose divisor is not a harmless constant."""
    # The rounding divisions are made of the plain ones.
    mlir.run_passes(module, ["arith-expand"], "expanding divisions")
    for op in mlir.walk(module):
        if op.name in _SIGNED | _UNSIGNED and not isinstance(op.operands[0].type, ir.VectorType):
            dividend, divisor = op.operands
            if literals.whole(divisor) in (None, 0) or (literals.whole(divisor) == -1 and op.name in _SIGNED):
                with ir.InsertionPoint(op), op.location:
                    op.operands[1] = _harmless(dividend, divisor, signed=op.name in _SIGNED)


def _harmless(dividend: ir.Value, divisor: ir.Value, *, signed: bool) -> ir.Value:
    kind = divisor.type
    bad = _equals(divisor, 0)
    if signed:
        bits = 64 if isinstance(kind, ir.IndexType) else kind.width
        overflow = arith.AndIOp(_equals(dividend, -(1 << (bits - 1))), _equals(divisor, -1)).result
        bad = arith.OrIOp(bad, overflow).result
    return arith.SelectOp(bad, arith.ConstantOp(kind, 1).result, divisor).result


def _equals(value: ir.Value, number: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, value, arith.ConstantOp(value.type, number).result).result
