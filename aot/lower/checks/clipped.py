"""Slices in loops whose size is cut off at the end of something: the least of several numbers.

In: the offset and the size of such a slice, with its Nest. Out: Clipped, computed in front of the loops.

In ``scf.for %i = 0 to %n step 4`` the slice from ``%i`` of ``affine.min (4, %n - %i)`` ends at ``%l + 4`` or at ``%n``,
whichever is less, where ``%l`` is the last index. That is so because neither end falls when ``%i`` grows: so both are
largest in the last iteration. Where one falls there is no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.checks.looprange import Nest, Sum
from aot.lower.general.mappedloop import Bound


@dataclass(frozen=True)
class Clipped:
    """What all iterations have in common."""

    first: ir.Value
    """Least offset."""
    size: ir.Value
    """Least size."""
    end: ir.Value
    """Largest offset and size together."""


def find(nest: Nest, offset: Bound, size: Bound) -> Clipped | None:
    """Of slices of step 1; None where one of the numbers is not known."""
    start, sizes = nest.sum_of(offset), _sizes(nest, size)
    if start is None or not sizes:
        return None
    ends = [start.plus(each) for each in sizes]
    if not all(isinstance(factor, int) and factor >= 0 for each in ends for factor in each.factors.values()):
        return None
    first = nest.range_of(start)
    ranges, last = [nest.range_of(each) for each in sizes], [nest.range_of(each) for each in ends]
    assert first is not None
    return Clipped(
        first.least,
        _least([each.least for each in ranges if each is not None]),
        _least([each.largest for each in last if each is not None]),
    )


def _sizes(nest: Nest, size: Bound) -> list[Sum]:
    """The numbers of which the size is the least; none for a size that is no such thing."""
    made_by = mlir.owner(size) if isinstance(size, ir.Value) else None
    if not isinstance(made_by, ir.Operation):
        return []
    operands = list(made_by.operands)
    if made_by.name == "affine.min":
        places = ir.AffineMapAttr(made_by.attributes["map"]).value
        found = [nest.applied(each, places.n_dims, operands) for each in places.results]
    elif made_by.name == "arith.minsi":
        found = [nest.sum_of(each) for each in operands]
    else:
        return []
    sums = [each for each in found if each is not None]
    return sums if len(sums) == len(found) else []


def _least(values: list[ir.Value]) -> ir.Value:
    return reduce(lambda one, other: arith.MinSIOp(one, other).result, values)
