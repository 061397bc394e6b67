"""Running results of one thread over the chunks of its row, for one reduction.

In: a member, its initial values, an evaluator. Out: partial results of the thread, from all of its chunks at once, or
running values before the first chunk, after some more, and at the end.

A vector's lanes run apart and are joined at the end; those of a chunk that may be outside of the row are joined before,
since one value is to be masked then. A search has two stages. First the row's extreme is found, which
takes one instruction for a register; of places a thread keeps nothing but the number of the turn that its own extreme
was in. Then those threads that have the row's extreme look for its first place in that turn, and what the source calls
the place is computed once, of the row's result. To keep a place beside each running value would take longer than to
read the row.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, vector

from aot.lower.fast.region import Member
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.reducers import Reducer, Search, equal
from aot.lower.fast.rowwise.chunks import Chunk, Evaluator
from aot.lower.fast.rowwise.exchange import Combiner


@dataclass(frozen=True)
class Folded:
    """Running values of associative operations."""

    member: Member
    reducer: Reducer
    start: tuple[ir.Value, ...]
    code: Evaluator

    def straight(self, chunks: Sequence[Chunk]) -> list[list[ir.Value]]:
        """Partial results of all chunks."""
        apart = [(chunk, self.code.elements(self.member, chunk, self.reducer.elements)) for chunk in chunks]
        whole = [elements for chunk, elements in apart if chunk.valid is None]
        found = self.lanes(functools.reduce(self.reducer.combine, whole)) if whole else []
        for chunk, elements in apart:
            if chunk.valid is not None:
                found.append(_if(chunk.valid, joined(self, self.lanes(elements)), self.neutral()))
        return found

    def begin(self) -> list[ir.Value]:
        """Before the first chunk."""
        return [bodies.broadcast(value, self.code.width) for value in self.reducer.neutral(self.start)]

    def add(self, chunks: Sequence[Chunk], running: Sequence[ir.Value]) -> list[ir.Value]:
        """Some chunks more."""
        for chunk in chunks:
            elements = self.code.elements(self.member, chunk, self.reducer.elements)
            running = self.reducer.combine(running, elements)
        return list(running)

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


@dataclass(frozen=True)
class Found:
    """A running extreme, and the number of the first chunk of the turn that it was in."""

    member: Member
    reducer: Reducer
    search: Search
    start: tuple[ir.Value, ...]
    code: Evaluator
    number: ir.IntegerType
    """Type of chunks' and columns' numbers: short, unless rows may be longer than it can tell."""

    @property
    def first(self) -> ir.Value:
        """The initial value, which no element of it is better than: it stands for elements that are not there."""
        return self.start[self.search.value_output]

    def straight(self, chunks: Sequence[Chunk]) -> list[list[ir.Value]]:
        """The extremes of whole chunks together, and of each that may be outside of the row."""
        whole = [chunk for chunk in chunks if chunk.valid is None]
        found = [[self._best(whole)]] if whole else []
        return found + [_if(chunk.valid, [self._best([chunk])], self.neutral()) for chunk in chunks if chunk.valid]

    def begin(self) -> list[ir.Value]:
        """Before the first chunk: the initial value, of no chunk."""
        return [self.first, self.none]

    def add(self, chunks: Sequence[Chunk], running: Sequence[ir.Value]) -> list[ir.Value]:
        """Some chunks more: a turn that is strictly better takes the place of those before."""
        value, number = running
        best = self._best(chunks)
        mine = arith.IndexCastOp(self.number, chunks[0].number).result
        return _if(self.reducer.wins(value, best), [best, mine], [value, number])

    def _best(self, chunks: Sequence[Chunk]) -> ir.Value:
        return self._across(functools.reduce(self.reducer.extreme, map(self._elements, chunks)))

    def _elements(self, chunk: Chunk) -> ir.Value:
        return self.code.elements(self.member, chunk, [self.search.element])[0]

    def _across(self, value: ir.Value) -> ir.Value:
        """The extreme of a vector's elements: of halves as long as they are vectors, too."""
        while isinstance(value.type, ir.VectorType):
            size = value.type.shape[0]
            if size == 1:
                return bodies.unpack(value)[0]
            low, high = (
                vector.ShuffleOp(value, value, list(range(first, first + size // 2))).result for first in (0, size // 2)
            )
            value = self.reducer.extreme(low, high)
        return value

    def lanes(self, running: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The thread's extreme."""
        return [[running[0]]]

    def neutral(self) -> list[ir.Value]:
        """An extreme that changes nothing."""
        return [self.first]

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """The more extreme one."""
        return [self.reducer.extreme(one[0], other[0])]

    @property
    def none(self) -> ir.Value:
        """The number of no column: as an unsigned number it is larger than all others."""
        return self._number(-1)

    def has(self, number: ir.Value) -> ir.Value:
        """Whether a number is that of a chunk, or column."""
        return arith.CmpIOp(arith.CmpIPredicate.sge, number, self._number(0)).result

    def places(self, best: ir.Value, chunks: Sequence[Chunk]) -> list[ir.Value]:
        """The first column in rising chunks whose element is the extreme, and that element."""
        wide = bodies.broadcast(best, self.code.width)
        numbers, values = bodies.broadcast(self.none, self.code.width), wide
        for chunk in reversed(chunks):
            # What is computed here is not there for the code behind.
            element = self._elements(replace(chunk, memo=dict(chunk.memo)))
            here = equal(element, wide)
            if chunk.valid is not None:
                here = arith.AndIOp(here, bodies.broadcast(chunk.valid, self.code.width)).result
            mine = bodies.broadcast(arith.IndexCastOp(self.number, chunk.number).result, self.code.width)
            numbers, values = _if(here, [mine, element], [numbers, values])
        lanes = zip(bodies.unpack(numbers), bodies.unpack(values), strict=True)
        return joined(Earlier(), [[self._column(n, lane), value] for lane, (n, value) in enumerate(lanes)])

    def _column(self, number: ir.Value, lane: int) -> ir.Value:
        column = number
        if self.code.width > 1:
            column = arith.MulIOp(column, self._number(self.code.width)).result
            column = arith.AddIOp(column, self._number(lane)).result
        if self.code.head is not None:
            head = arith.IndexCastOp(self.number, self.code.head).result
            column = arith.AddIOp(column, head).result
        return arith.SelectOp(self.has(number), column, number).result

    def result(self, best: ir.Value, column: ir.Value, element: ir.Value) -> list[ir.Value]:
        """The extreme, and its place as the source tells it; the initial ones where no element is better."""
        place = self.code.at(self.member, arith.IndexCastOp(ir.IndexType.get(), column).result, self.search.place)
        pair = [element, place] if self.search.value_output == 0 else [place, element]
        wins = self.reducer.wins(self.first, best)
        return _if(wins, pair, self.start)

    def _number(self, value: int) -> ir.Value:
        return arith.ConstantOp(self.number, value).result


class Earlier:
    """Combines columns, and what belongs to them: the smaller one is taken, with its own."""

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """Of two lists that begin with a column one."""
        earlier = arith.CmpIOp(arith.CmpIPredicate.ult, other[0], one[0]).result
        return _if(earlier, other, one)


Tally = Folded | Found


def tally(member: Member, start: Sequence[ir.Value], code: Evaluator, *, short: bool) -> Tally:
    """The running results of a reduction; ``short``: rows have less than 2^31 columns."""
    reducer = member.reducer
    assert reducer is not None
    if reducer.search is None:
        return Folded(member, reducer, tuple(start), code)
    number = ir.IntegerType.get_signless(32 if short else 64)
    return Found(member, reducer, reducer.search, tuple(start), code, number)


def _if(condition: ir.Value, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    return [arith.SelectOp(condition, a, b).result for a, b in zip(one, other, strict=True)]


def joined(one: Combiner, partial: list[list[ir.Value]]) -> list[ir.Value]:
    """One result from those of the lanes: pairs, then pairs of pairs."""
    while len(partial) > 1:
        half = len(partial) // 2
        paired = [one.combine(a, b) for a, b in zip(partial[:half], partial[half:], strict=False)]
        partial = paired + partial[2 * half :]
    return partial[0]
