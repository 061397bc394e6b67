"""Many f32 numbers divided by one: the inverse is taken once, and each quotient corrected.

In: a division of a vector by a number, of a body. Out: the quotients, rounded as the division would round them.

``q = x * r`` with ``r = 1 / s`` is off by little more than the rounding; ``e = x - q * s``, exact in a fused operation,
says by how much, and ``q + e * r`` is the right one (Markstein). Five instructions, where a division takes ten. Where
that comes to nothing (zeros, whose signs it would lose, infinities, NaNs) ``q`` is right already; a divisor whose
inverse overflows is divided by.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from aot import mlir

_LEAST = 2.0**-126
"""Smaller divisors may have no inverse."""


def by_one_number(op: ir.Operation, operands: Sequence[ir.Value]) -> bool:
    """Whether an operation is such a division; by a constant the compiler knows a way of its own."""
    if op.name != "arith.divf" or not isinstance(op.results[0].type, ir.F32Type):
        return False
    dividend, divisor = operands
    if not isinstance(dividend.type, ir.VectorType) or isinstance(divisor.type, ir.VectorType):
        return False
    made_by = mlir.owner(divisor)
    return isinstance(made_by, ir.Block) or made_by.name != "arith.constant"


def divided(op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """The quotients."""
    dividend, divisor = operands
    kind = ir.VectorType(dividend.type)
    all_of_it = vector.BroadcastOp(kind, divisor).result
    size = math.AbsFOp(divisor).result
    least = arith.ConstantOp(divisor.type, _LEAST).result
    choice = scf.IfOp(arith.CmpFOp(arith.CmpFPredicate.OLT, size, least).result, [kind], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        scf.YieldOp([arith.DivFOp(dividend, all_of_it).result])
    with ir.InsertionPoint(choice.else_block):
        inverse = arith.DivFOp(arith.ConstantOp(divisor.type, 1.0).result, divisor).result
        scf.YieldOp([_corrected(dividend, all_of_it, vector.BroadcastOp(kind, inverse).result)])
    return choice.results[0]


def _corrected(dividend: ir.Value, divisor: ir.Value, inverse: ir.Value) -> ir.Value:
    kind = ir.VectorType(dividend.type)
    quotient = arith.MulFOp(dividend, inverse).result
    rest = math.FmaOp(arith.NegFOp(quotient).result, divisor, dividend).result
    better = math.FmaOp(rest, inverse, quotient).result
    zero = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, 0.0))).result
    counts = arith.CmpFOp(arith.CmpFPredicate.ONE, better, zero).result
    return arith.SelectOp(counts, better, quotient).result
