"""Running values of all reductions of a kernel, in one list: those of the first member, those of the second, and so on.

In: the members that reduce, and such lists. Out: such a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import arith

from aot.lower.fast.region import Member


def combined(members: Sequence[Member], one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    """Two lists together."""
    done: list[ir.Value] = []
    for member in members:
        assert member.reducer is not None
        first, behind = len(done), len(done) + len(member.operation.outputs)
        done += member.reducer.combine(one[first:behind], other[first:behind])
    return done


def counted(
    members: Sequence[Member],
    begun: Sequence[ir.Value],
    found: Iterable[tuple[ir.Value, list[ir.Value]]],
    count: ir.Value,
) -> list[ir.Value]:
    """A list with those of (number, list) whose numbers are below ``count``.

    What is counted is asked after all loads, which have made the lists: there are not predicates enough to keep the
    answers, and loads would wait for each other.
    """
    done = list(begun)
    for number, each in found:
        here = arith.CmpIOp(arith.CmpIPredicate.ult, number, count).result
        together = combined(members, done, each)
        done = [arith.SelectOp(here, new, old).result for new, old in zip(together, done, strict=True)]
    return done
