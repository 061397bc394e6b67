"""Powers of integers with exponents that only a run knows, ``math.ipowi``: loops of multiplications.

In: a module without tensors. Out: the same. Upstream has no lowering of them but to functions of its own.

``math.ipowi %x, %n : i32`` squares ``%x`` once for each bit of ``%n``; with a negative exponent it is the integer part
of one over the power.
"""

from __future__ import annotations

import itertools

from mlir import ir
from mlir.dialects import arith, scf, vector

from aot import mlir

POWER = "math.ipowi"


def lower(module: mlir.Module) -> None:
    """Rewrite all of them."""
    for op in mlir.walk(module):
        if op.name == POWER:
            with ir.InsertionPoint(op), op.location:
                expand(op)


def expand(op: mlir.Operation) -> None:
    """Rewrite one, at the current place; of vectors element by element, since each takes steps of its own number."""
    kind = op.results[0].type
    if isinstance(kind, ir.VectorType):
        places = [list(place) for place in itertools.product(*map(range, kind.shape))]
        powers = [_power(*(vector.ExtractOp(value, [], place).result for value in op.operands)) for place in places]
        value = vector.FromElementsOp(kind, powers).result
    else:
        value = _power(*op.operands)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _power(base: mlir.Value, exponent: mlir.Value) -> mlir.Value:
    kind = base.type
    zero, one, minus_one = (arith.ConstantOp(kind, number).result for number in (0, 1, -1))
    negative = arith.CmpIOp(arith.CmpIPredicate.slt, exponent, zero).result
    power = _positive_power(base, arith.SelectOp(negative, zero, exponent).result, zero, one)
    odd = arith.CmpIOp(arith.CmpIPredicate.ne, arith.AndIOp(exponent, one).result, zero).result
    is_one = arith.CmpIOp(arith.CmpIPredicate.eq, base, one).result
    is_minus_one = arith.CmpIOp(arith.CmpIPredicate.eq, base, minus_one).result
    sign = arith.SelectOp(odd, minus_one, one).result
    inverse = arith.SelectOp(is_one, one, arith.SelectOp(is_minus_one, sign, zero).result).result
    return arith.SelectOp(negative, inverse, power).result


def _positive_power(base: mlir.Value, exponent: mlir.Value, zero: mlir.Value, one: mlir.Value) -> mlir.Value:
    kind = base.type
    loop = scf.WhileOp([kind] * 3, [base, exponent, one])
    loop.before.blocks.append(kind, kind, kind)
    loop.after.blocks.append(kind, kind, kind)
    with ir.InsertionPoint(loop.before.blocks[0]):
        carried = list(loop.before.blocks[0].arguments)
        more = arith.CmpIOp(arith.CmpIPredicate.ne, carried[1], zero).result
        scf.ConditionOp(more, carried)
    with ir.InsertionPoint(loop.after.blocks[0]):
        square, left, product = loop.after.blocks[0].arguments
        bit = arith.CmpIOp(arith.CmpIPredicate.ne, arith.AndIOp(left, one).result, zero).result
        multiplied = arith.SelectOp(bit, arith.MulIOp(product, square).result, product).result
        scf.YieldOp([arith.MulIOp(square, square).result, arith.ShRUIOp(left, one).result, multiplied])
    return loop.results[2]
