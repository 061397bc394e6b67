"""Softmax of rows that come piece by piece, each thread having some columns of a row.

In: a thread's scores of a piece, and what it knows of the row so far. Out: weights relative to the largest score so
far, or to one that is not far from it, new knowledge, and the factor that what was summed up before has to be
multiplied with.

A row of nothing but minus infinity so far counts from 0, so that its weights are 0 and not NaN; if nothing else comes,
the sum of its weights stays 0, and 0 / 0 is what the softmax of such a row is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, scf
from mlir.dialects import math as math_dialect

from aot.lower.contract.codegen import instructions
from aot.lower.fast.regions import bodies
from aot.lower.gpumodule import devicemath

_TO_POWERS_OF_TWO = math.log2(math.e)
LOW = 1e38
"""Multiples of numbers beyond it may be infinite in f32; two that differ there do so by more than exponents may."""
_QUAD = (1, 2)
"""Distances to the other threads of a row."""
_FAR = 8.0
"""Powers of two by which a weight may be more than 1."""
_CHAINS = 4
"""Independent chains of a reduction: one alone would wait for itself."""

Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Scale:
    """What scores are multiplied with in the exponents of their weights."""

    natural: float
    """In those of e; kernels compute powers of two."""
    low: bool = False
    """Whether all scores of a piece may be beyond LOW, as those that the least number of f32 hides are."""

    def usual(self) -> ir.Value:
        """For numbers that are not so large, and differences."""
        return number(self.natural * _TO_POWERS_OF_TWO)

    def of(self, largest: ir.Value) -> ir.Value:
        """For scores of a row: half of it where powers would be none; weights are 0 or 1 there with either."""
        if not self.low:
            return self.usual()
        beyond = arith.CmpFOp(arith.CmpFPredicate.OGT, math_dialect.AbsFOp(largest).result, number(LOW)).result
        return arith.SelectOp(beyond, number(self.natural * _TO_POWERS_OF_TWO / 2), self.usual()).result


@dataclass(frozen=True, eq=False)
class Row:
    """What a thread knows of one row."""

    largest: ir.Value
    """That weights are relative to: the largest score so far, or one that is not far from it."""
    total: ir.Value
    """Of the thread's own weights."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A thread's two rows before the weights of one more piece."""

    rows: list[Row]
    """What they count from is not far from their largest scores."""
    moved: ir.Value
    """Whether one in the warp counts from another score than before."""
    factors: list[ir.Value]
    """What was summed up before has to be multiplied with, if so."""

    def multiplied(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Sums of values, two neighbours of a row and two of the other in turn."""
        branch = scf.IfOp(self.moved, [each.type for each in sums], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp([arith.MulFOp(value, self.factors[n % 4 // 2]).result for n, value in enumerate(sums)])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(list(sums))
        return list(branch.results)


def start() -> Row:
    """Before the first piece."""
    return Row(number(float("-inf")), number(0.0))


def number(value: float) -> ir.Value:
    """An f32."""
    return arith.ConstantOp(ir.F32Type.get(), value).result


def highest(scores: Sequence[ir.Value]) -> ir.Value:
    """The largest of a thread's scores."""
    return _folded(_larger, scores)


def begun(scores: Sequence[Sequence[ir.Value]], rows: Sequence[Row], scale: Scale) -> Begun:
    """Two rows, counted from their largest scores if one is far from what its row counts from.

    That is seldom so after some pieces. A thread's own scores say it: else neither the row's largest one is needed, nor
    products of all sums.
    """
    pairs = [(row, highest(each)) for row, each in zip(rows, scores, strict=True)]
    far = instructions.any_lane([is_far(row, score, scale) for row, score in pairs])
    before = [*(value for row in rows for value in (row.largest, row.total)), number(1.0), number(1.0)]
    branch = scf.IfOp(far, [each.type for each in before], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        found = [moved(row, largest([score], row), scale) for row, score in pairs]
        after = [value for row, _ in found for value in (row.largest, row.total)]
        scf.YieldOp([*after, *(factor for _, factor in found)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(before)
    a, b, c, d, *factors = branch.results
    return Begun([Row(a, b), Row(c, d)], far, factors)


def largest(scores: Sequence[ir.Value], row: Row) -> ir.Value:
    """The largest score so far."""
    return _larger(row.largest, across(highest(scores), _larger))


def is_far(row: Row, score: ir.Value, scale: Scale) -> ir.Value:
    """Whether weights relative to what the row counts from would become too large for 16 bits."""
    distance = _times(_minus(score, row.largest), scale.usual())
    return arith.CmpFOp(arith.CmpFPredicate.OGT, distance, number(_FAR)).result


def moved(row: Row, score: ir.Value, scale: Scale) -> tuple[Row, ir.Value]:
    """The row, counted from another score, and the factor of what was summed up before."""
    before = factor(row, Row(score, row.total), scale)
    return Row(score, _times(row.total, before)), before


def weighed(scores: Sequence[ir.Value], row: Row, scale: Scale) -> tuple[list[ir.Value], Row]:
    """Weights of scores, relative to what the row counts from, and the row with them."""
    times = scale.of(row.largest)
    base = _base(row.largest, times)
    weights = [devicemath.power_of_two(_minus(_times(score, times), base)) for score in scores]
    return weights, Row(row.largest, _plus(row.total, _folded(_plus, weights)))


def merged(rows: Sequence[Row], scale: Scale) -> Row:
    """What is known of a row, from what is known of parts of it; sums of weights are those of all threads."""
    highest = _folded(_larger, [each.largest for each in rows])
    so_far = Row(highest, number(0.0))
    return Row(highest, total([_times(each.total, factor(each, so_far, scale)) for each in rows]))


def factor(part: Row, row: Row, scale: Scale) -> ir.Value:
    """What sums of values of a part are multiplied with to be relative to the largest score of all the row."""
    times = scale.of(row.largest)
    return devicemath.power_of_two(_minus(_times(part.largest, times), _base(row.largest, times)))


def total(values: Sequence[ir.Value]) -> ir.Value:
    """The sum of numbers, or of vectors."""
    return _folded(_plus, values)


def _base(score: ir.Value, times: ir.Value) -> ir.Value:
    """The exponent that weights are relative to."""
    none = arith.CmpFOp(arith.CmpFPredicate.OEQ, score, number(float("-inf"))).result
    return arith.SelectOp(none, number(0.0), _times(score, times)).result


def whole(row: Row) -> ir.Value:
    """The sum of all weights of a row."""
    return across(row.total, _plus)


def inverse(row: Row, *, zeros: bool) -> ir.Value:
    """What sums of values with these weights are multiplied with: infinity where no key has weight, or 0."""
    return reciprocal(whole(row), zeros=zeros)


def reciprocal(weights: ir.Value, *, zeros: bool) -> ir.Value:
    """The same for a sum of all of a row's weights."""
    found = arith.DivFOp(number(1.0), weights).result
    if not zeros:
        return found
    none = arith.CmpFOp(arith.CmpFPredicate.OEQ, weights, number(0.0)).result
    return arith.SelectOp(none, weights, found).result


def there(condition: ir.Value, values: Sequence[ir.Value], otherwise: float = 0.0) -> list[ir.Value]:
    """Values of a part, or numbers that add nothing if there is no such part."""
    return [arith.SelectOp(condition, each, like(number(otherwise), each)).result for each in values]


def like(value: ir.Value, other: ir.Value) -> ir.Value:
    """A number for each lane of another one."""
    return (
        bodies.broadcast(value, ir.VectorType(other.type).shape[0]) if isinstance(other.type, ir.VectorType) else value
    )


def across(value: ir.Value, combine: Combine) -> ir.Value:
    """A value of a row's four threads, combined; the same in all of them."""
    for distance in _QUAD:
        value = combine(value, devicemath.exchanged(value, distance))
    return value


def _folded(combine: Combine, values: Sequence[ir.Value]) -> ir.Value:
    chains = list(values[:_CHAINS])
    for place, each in enumerate(values[_CHAINS:]):
        chains[place % _CHAINS] = combine(chains[place % _CHAINS], each)
    while len(chains) > 1:
        chains = [combine(*chains[first : first + 2]) for first in range(0, len(chains), 2)]
    return chains[0]


def _larger(one: ir.Value, other: ir.Value) -> ir.Value:
    # Of the LLVM dialect: arith's becomes a comparison and a choice.
    return llvm.MaxNumOp(one, other).result


def _plus(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.AddFOp(one, other, fastmath=_contract()).result


def _minus(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.SubFOp(one, other, fastmath=_contract()).result


def _times(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.MulFOp(one, other, fastmath=_contract()).result


def _contract() -> ir.Attribute:
    return ir.Attribute.parse("#arith.fastmath<contract>")
