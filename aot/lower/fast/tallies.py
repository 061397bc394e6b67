"""Running results of one thread over the chunks of its row, for one reduction.

In: a member, its initial values, an evaluator. Out: the running values before the first chunk, after one more, and the
thread's partial result at the end.

A vector's lanes run apart and are joined at the end. Of a search each lane keeps an extreme and the number of the chunk
where it was: chunks come in rising order, so that the first of equal ones stays by itself, and the place itself is
computed once. Comparing places for each element would take longer than to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower import rtcalls
from aot.lower.fast import bodies
from aot.lower.fast.chunks import Chunk, Evaluator
from aot.lower.fast.reducers import Reducer, Search
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


@dataclass(frozen=True)
class Found:
    """A running extreme, and which vector it was in."""

    member: Member
    reducer: Reducer
    search: Search
    start: tuple[ir.Value, ...]
    code: Evaluator

    def begin(self) -> list[ir.Value]:
        """Before the first chunk: the initial value, of no vector."""
        none = _number(-1)
        first = self.start[self.search.value_output]
        return [bodies.broadcast(value, self.code.width) for value in (first, none)]

    def add(self, chunk: Chunk, running: Sequence[ir.Value]) -> list[ir.Value]:
        """One chunk more: what is strictly better takes its place."""
        value, number = running
        element = self.code.elements(self.member, chunk, [self.search.element])[0]
        mine = bodies.broadcast(arith.IndexCastOp(_number_type(), chunk.number).result, self.code.width)
        wins = self.reducer.wins(value, element)
        better = [arith.SelectOp(wins, a, b).result for a, b in ((element, value), (mine, number))]
        return _admitted(chunk, running, better)

    def lanes(self, running: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """The partial result of each lane: the extreme and its place."""
        values, numbers = (bodies.unpack(value) for value in running)
        return [self._pair(*each) for each in zip(range(len(values)), values, numbers, strict=True)]

    def _pair(self, lane: int, value: ir.Value, number: ir.Value) -> list[ir.Value]:
        first = self.start[1 - self.search.value_output]
        position = arith.IndexCastOp(ir.IndexType.get(), number).result
        column = bodies.plus(arith.MulIOp(position, rtcalls.index(self.code.width)).result, lane)
        if self.code.head is not None:
            column = arith.AddIOp(column, self.code.head).result
        place = self.code.at(self.member, column, self.search.place)
        found = arith.CmpIOp(arith.CmpIPredicate.sge, number, _number(0)).result
        pair = [value, arith.SelectOp(found, place, first).result]
        return pair if self.search.value_output == 0 else pair[::-1]


Tally = Folded | Found


def tally(member: Member, start: Sequence[ir.Value], code: Evaluator) -> Tally:
    """The running results of a reduction."""
    reducer = member.reducer
    assert reducer is not None
    if reducer.search is None:
        return Folded(member, reducer, tuple(start), code)
    return Found(member, reducer, reducer.search, tuple(start), code)


def _number_type() -> ir.Type:
    """Of numbers of vectors: short ones, since every lane has one."""
    return ir.IntegerType.get_signless(32)


def _number(value: int) -> ir.Value:
    return arith.ConstantOp(_number_type(), value).result


def _admitted(chunk: Chunk, old: Sequence[ir.Value], new: list[ir.Value]) -> list[ir.Value]:
    """The running values with a chunk, if it is in the row."""
    if chunk.valid is None:
        return new
    return [arith.SelectOp(chunk.valid, a, b).result for a, b in zip(new, old, strict=True)]


def joined(reducer: Reducer, partial: list[list[ir.Value]]) -> list[ir.Value]:
    """One result from those of the lanes: pairs, then pairs of pairs."""
    while len(partial) > 1:
        half = len(partial) // 2
        paired = [reducer.combine(one, other) for one, other in zip(partial[:half], partial[half:], strict=False)]
        partial = paired + partial[2 * half :]
    return partial[0]
