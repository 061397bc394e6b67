"""Running results of one thread over the chunks of its row, for one reduction.

In: a member, its initial values, an evaluator. Out: the running values before the first chunk, after one more, and the
thread's partial result at the end.

A vector's lanes run apart and are joined at the end. Of a search each lane keeps an extreme and the number of the chunk
where it was: chunks come in rising order, so that the first of equal ones stays by itself. Joined results know a column
instead; what the source calls the place is computed once, of the row's result. To compare places for each element, or
for each step of an exchange, would take longer than to read the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.fast import bodies
from aot.lower.fast.chunks import Chunk, Evaluator
from aot.lower.fast.reducers import Reducer, Search, equal
from aot.lower.fast.region import Member


@dataclass(frozen=True)
class Folded:
    """Running values of associative operations."""

    member: Member
    reducer: Reducer
    start: tuple[ir.Value, ...]
    code: Evaluator

    def begin(self) -> list[ir.Value]:
        """Before the first chunk."""
        return [bodies.broadcast(value, self.code.width) for value in self.reducer.neutral(self.start)]

    def add(self, chunk: Chunk, running: Sequence[ir.Value]) -> list[ir.Value]:
        """One chunk more."""
        elements = self.code.elements(self.member, chunk, self.reducer.elements)
        return _admitted(chunk, running, self.reducer.combine(running, elements))

    def lanes(self, running: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The partial result of each lane."""
        apart = [bodies.unpack(value) for value in running]
        return [list(each) for each in zip(*apart, strict=True)]

    def neutral(self) -> list[ir.Value]:
        """A partial result that changes nothing."""
        return self.reducer.neutral(self.start)

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """Two partial results together."""
        return self.reducer.combine(one, other)

    def result(self, partial: Sequence[ir.Value]) -> list[ir.Value]:
        """What the operation's results would be."""
        return list(partial)


@dataclass(frozen=True)
class Found:
    """A running extreme, and which vector it was in."""

    member: Member
    reducer: Reducer
    search: Search
    start: tuple[ir.Value, ...]
    code: Evaluator
    number: ir.IntegerType
    """Type of chunks' and columns' numbers: short, unless rows may be longer than it can tell."""

    def begin(self) -> list[ir.Value]:
        """Before the first chunk: the initial value, of no chunk."""
        return [bodies.broadcast(value, self.code.width) for value in self.neutral()]

    def add(self, chunk: Chunk, running: Sequence[ir.Value]) -> list[ir.Value]:
        """One chunk more: what is strictly better takes its place."""
        value, number = running
        element = self.code.elements(self.member, chunk, [self.search.element])[0]
        mine = bodies.broadcast(arith.IndexCastOp(self.number, chunk.number).result, self.code.width)
        wins = self.reducer.wins(value, element)
        better = [arith.SelectOp(wins, a, b).result for a, b in ((element, value), (mine, number))]
        return _admitted(chunk, running, better)

    def lanes(self, running: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The partial result of each lane: the extreme and its column."""
        values, numbers = (bodies.unpack(value) for value in running)
        return [[value, self._column(*each)] for value, *each in zip(values, numbers, range(len(values)), strict=True)]

    def _column(self, number: ir.Value, lane: int) -> ir.Value:
        column = number
        if self.code.width > 1:
            column = arith.MulIOp(column, self._number(self.code.width)).result
            column = arith.AddIOp(column, self._number(lane)).result
        if self.code.head is not None:
            head = arith.IndexCastOp(self.number, self.code.head).result
            column = arith.AddIOp(column, head).result
        return arith.SelectOp(self._is_found(number), column, number).result

    def neutral(self) -> list[ir.Value]:
        """The initial value, of no column."""
        return [self.start[self.search.value_output], self._number(-1)]

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """The more extreme one, and of equal ones that of the smaller column; no column counts as a large one."""
        wins = self.reducer.wins(one[0], other[0])
        earlier = arith.CmpIOp(arith.CmpIPredicate.ult, other[1], one[1]).result
        tie = arith.AndIOp(equal(one[0], other[0]), earlier).result
        chosen = arith.OrIOp(wins, tie).result
        return [arith.SelectOp(chosen, b, a).result for a, b in zip(one, other, strict=True)]

    def result(self, partial: Sequence[ir.Value]) -> list[ir.Value]:
        """The extreme, and its place as the source tells it."""
        value, number = partial
        first = self.start[1 - self.search.value_output]
        place = self.code.at(self.member, arith.IndexCastOp(ir.IndexType.get(), number).result, self.search.place)
        pair = [value, arith.SelectOp(self._is_found(number), place, first).result]
        return pair if self.search.value_output == 0 else pair[::-1]

    def _is_found(self, number: ir.Value) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.sge, number, self._number(0)).result

    def _number(self, value: int) -> ir.Value:
        return arith.ConstantOp(self.number, value).result


Tally = Folded | Found


def tally(member: Member, start: Sequence[ir.Value], code: Evaluator, *, short: bool) -> Tally:
    """The running results of a reduction; ``short``: rows have less than 2^31 columns."""
    reducer = member.reducer
    assert reducer is not None
    if reducer.search is None:
        return Folded(member, reducer, tuple(start), code)
    number = ir.IntegerType.get_signless(32 if short else 64)
    return Found(member, reducer, reducer.search, tuple(start), code, number)


def _admitted(chunk: Chunk, old: Sequence[ir.Value], new: list[ir.Value]) -> list[ir.Value]:
    """The running values with a chunk, if it is in the row."""
    if chunk.valid is None:
        return new
    return [arith.SelectOp(chunk.valid, a, b).result for a, b in zip(new, old, strict=True)]


def joined(one: Tally, partial: list[list[ir.Value]]) -> list[ir.Value]:
    """One result from those of the lanes: pairs, then pairs of pairs."""
    while len(partial) > 1:
        half = len(partial) // 2
        paired = [one.combine(a, b) for a, b in zip(partial[:half], partial[half:], strict=False)]
        partial = paired + partial[2 * half :]
    return partial[0]
