"""Many f32 numbers divided by one: the inverse is taken once, and each quotient corrected.

In: a division of a vector by a number, of a body. Out: the quotients, rounded as the division would round them.

``q = x * r`` with ``r = 1 / s`` is off by little more than the rounding; ``e = x - q * s``, exact in a fused operation,
says by how much, and ``q + e * r`` is the right one (Markstein). Five instructions, where a division takes ten. Where
that comes to nothing (zeros, whose signs it would lose, infinities, NaNs) ``q`` is right already. A divisor below
2**-64 is made larger by a power of two, and so are the dividends: its inverse might overflow, and ``e`` have no room
for its bits. A dividend that overflows then has an infinite quotient anyway. With other divisors ``e`` is cut off where
a dividend is below 2**-100, and the quotient may be the neighbour of the right one.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math, vector

from aot import mlir
from aot.lower.launches import branches

_LEAST, _LARGER = 2.0**-64, 2.0**64
"""Smaller divisors are made so many times larger."""


def by_one_number(op: ir.Operation, operands: Sequence[ir.Value]) -> bool:
    """Whether an operation is such a division; by a constant the compiler knows a way of its own."""
    if op.name != "arith.divf" or not isinstance(op.results[0].type, ir.F32Type):
        return False
    dividend, divisor = operands
    if not isinstance(dividend.type, ir.VectorType) or isinstance(divisor.type, ir.VectorType):
        return False
    made_by = mlir.owner(divisor)
    return isinstance(made_by, ir.Block) or made_by.name != "arith.constant"


def divided(operands: Sequence[ir.Value]) -> ir.Value:
    """The quotients."""
    dividend, divisor = operands
    kind = ir.VectorType(dividend.type)
    size = math.AbsFOp(divisor).result
    small = arith.CmpFOp(arith.CmpFPredicate.OLT, size, _number(divisor, _LEAST)).result

    def raised() -> list[ir.Value]:
        larger = _number(divisor, _LARGER)
        above = arith.MulFOp(dividend, vector.BroadcastOp(kind, larger).result).result
        return [_corrected(above, arith.MulFOp(divisor, larger).result)]

    return branches.chosen(small, [kind], raised, lambda: [_corrected(dividend, divisor)])[0]


def _number(like: ir.Value, value: float) -> ir.Value:
    return arith.ConstantOp(like.type, value).result


def _corrected(dividend: ir.Value, by: ir.Value) -> ir.Value:
    kind = ir.VectorType(dividend.type)
    divisor = vector.BroadcastOp(kind, by).result
    inverse = vector.BroadcastOp(kind, arith.DivFOp(_number(by, 1.0), by).result).result
    quotient = arith.MulFOp(dividend, inverse).result
    rest = math.FmaOp(arith.NegFOp(quotient).result, divisor, dividend).result
    better = math.FmaOp(rest, inverse, quotient).result
    zero = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, 0.0))).result
    counts = arith.CmpFOp(arith.CmpFPredicate.ONE, better, zero).result
    return arith.SelectOp(counts, better, quotient).result
