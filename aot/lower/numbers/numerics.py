"""Reductions in 8- and 16-bit floats accumulate in f32: a running sum of many small values would stand still.

In: linalg operations on tensors or memrefs. Out: the same, where each such accumulator is an f32 value that is
rounded once, at the end. Products that go right into a sum are taken in f32 too, where they are exact.

``linalg.matmul ins(f16, f16) outs(%c : f16)``  becomes  ``linalg.matmul ins(f16, f16) outs(f32)`` on an f32 copy of
``%c``, and a rounding of that into ``%c``. Named operations keep their names: what their bodies become here is
what MLIR gives them for operands of such types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.dialects import linalg
from aot.lower.numbers import widetensor

_SUMS = frozenset({"arith.addf", "arith.mulf", "arith.subf", "math.fma"})
"""Operations that lose precision when they repeat; at least one must be in the chain."""
_CHAIN = _SUMS | {
    "arith.cmpf",
    "arith.divf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
    "arith.negf",
    "arith.select",
    "math.absf",
    "math.exp",
    "math.sqrt",
}
"""Operations that may stand between an accumulator and its new value."""


@dataclass(frozen=True)
class _Accumulator:
    """One output of a linalg operation that is summed up in a narrow type."""

    output: int
    """Which of the operation's outputs."""
    chain: tuple[mlir.Operation, ...]
    """Operations of the body from the old value to the new one, in order."""


def widen(module: mlir.Module) -> None:
    """Rewrite all narrow accumulators of host code."""
    for op in _candidates(module):
        for accumulator in _accumulators(op):
            _widen(op, accumulator)


def _candidates(module: mlir.Module) -> list[mlir.Operation]:
    return [
        op
        for op in mlir.walk(module)
        if op.name.startswith("linalg.")
        and len(op.regions)
        and not mlir.inside_kernel(op)
        and any(_is_narrow(getattr(value.type, "element_type", value.type)) for value in op.operands)
    ]


def _is_narrow(type_: ir.Type) -> bool:
    return isinstance(type_, ir.FloatType) and type_.width in (8, 16) and not isinstance(type_, ir.Float8E8M0FNUType)


def _accumulators(op: mlir.Operation) -> list[_Accumulator]:
    maps = linalg.get_indexing_maps(op)
    body = op.regions[0].blocks[0]
    if maps is None or len(maps) != len(op.operands) or len(body.arguments) != len(op.operands):
        return []
    first = _first_output(op)
    found = []
    for output in range(len(op.operands) - first):
        if not _reduces(ir.AffineMapAttr(maps[first + output]).value):
            continue
        chain = _chain(body, first, output)
        if chain:
            found.append(_Accumulator(output, chain))
    return found


def _first_output(op: mlir.Operation) -> int:
    """Number of the operand that holds the first output."""
    if "operandSegmentSizes" in op.attributes:
        return int(next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))))
    return len(op.operands) // 2


def _reduces(output: ir.AffineMap) -> bool:
    """Whether several points of the iteration space meet in one element of the output."""
    dims = {expr.position for expr in output.results if isinstance(expr, ir.AffineDimExpr)}
    return bool(len(dims) < output.n_dims)


def _chain(body: ir.Block, first: int, output: int) -> tuple[mlir.Operation, ...]:
    """What happens to the accumulator; () when it is not narrow, not summed, or goes another way."""
    old = body.arguments[first + output]
    if not _is_narrow(old.type):
        return ()
    operations = [op.operation for op in body.operations]
    carried = {old}
    chain: list[mlir.Operation] = []
    for op in operations[:-1]:
        if any(value in carried for inner in mlir.walk(op) for value in inner.operands):
            chain.append(op)
            carried.update(op.results)
    yielded = [number for number, value in enumerate(operations[-1].operands) if value in carried]
    names = {op.name for op in chain}
    return tuple(chain) if yielded == [output] and names & _SUMS and names <= _CHAIN else ()


def _widen(op: mlir.Operation, accumulator: _Accumulator) -> None:
    body = op.regions[0].blocks[0]
    number = _first_output(op) + accumulator.output
    _widen_body(body.arguments[number], accumulator.chain)
    widetensor.replace_output(op, number, accumulator.output)


def _widen_body(old: mlir.Value, chain: Sequence[mlir.Operation]) -> None:
    f32 = ir.F32Type.get()
    old.set_type(f32)
    inside = {old} | {result for op in chain for result in op.results}
    for op in chain:
        for number, value in enumerate(op.operands):
            if value not in inside and _is_narrow(value.type):
                with ir.InsertionPoint(op), op.location:
                    op.operands[number] = _wide(value, op.block)
                _erase_unused(value)
        for result in op.results:
            if _is_narrow(result.type):
                result.set_type(f32)


def _erase_unused(product: mlir.Value) -> None:
    made_by = mlir.owner(product)
    if not isinstance(made_by, ir.Block) and made_by.name == "arith.mulf" and not list(product.uses):
        made_by.erase()


def _wide(value: mlir.Value, body: ir.Block) -> mlir.Value:
    """The value in f32; a product made for the sum only is made in f32."""
    f32 = ir.F32Type.get()
    op = mlir.owner(value)
    if isinstance(op, ir.Block) or op.name != "arith.mulf" or op.block != body or len(list(value.uses)) != 1:
        return arith.ExtFOp(f32, value).result
    factors = [arith.ExtFOp(f32, factor).result for factor in op.operands]
    return arith.MulFOp(*factors, fastmath=op.attributes["fastmath"]).result
