"""Which columns of a row a thread has.

In: a tile, the thread's place among those of its row, and an evaluator. Out: chunks, or loops over them.

Neighbouring threads have neighbouring vectors: chunk ``k`` of thread ``t`` is vector ``k * threads + t``. Where
rows begin at any address (SHIFTED), vectors are the aligned ones inside the row; the columns before and behind them, at
most one for each thread, are a chunk of their own, the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from aot.lower.fast.regions import bodies
from aot.lower.fast.rowwise.chunks import EXACT, Chunk, Evaluator
from aot.lower.fast.rowwise.rowjob import Tile
from aot.lower.hostmodule import rtcalls

Work = Callable[[list[Chunk], list[ir.Value]], list[ir.Value]]
"""Makes new running values of some chunks and of those before."""


@dataclass(frozen=True)
class Part:
    """Blocks that divide a row: which of them this one is."""

    number: ir.Value
    count: ir.Value


@dataclass(frozen=True)
class Deal:
    """How columns are dealt out to the threads of a row."""

    tile: Tile
    code: Evaluator
    lane: ir.Value
    """The thread among those of its row."""
    threads: ir.Value
    """How many there are."""
    count: ir.Value
    """Whole vectors of the row."""
    begin: ir.Value
    """The first vector of the block's part of the row."""
    end: ir.Value
    """Behind its last one."""
    first: ir.Value | None
    """Whether the block has the first part; None: it has the whole row."""

    def straight(self) -> list[Chunk]:
        """The thread's chunks, where it has but a few."""
        numbers = [self.lane]
        while len(numbers) < self.tile.vectors:
            numbers.append(arith.AddIOp(numbers[-1], self.threads).result)
        whole = self.tile.vectors if self.tile.mode == EXACT else self._whole()
        return [*map(self._chunk, numbers[:whole]), *map(self._perhaps, numbers[whole:])]

    def _whole(self) -> int:
        """Chunks that are in the row whichever thread has them."""
        columns = self.code.space.columns.static
        if columns is None or self.tile.flexible:
            return self.tile.whole
        return max(0, columns - self.tile.slack) // (self.tile.group * self.tile.width)

    def turn(self, first: ir.Value, vectors: int) -> list[Chunk]:
        """The chunks of a loop's turn again, by the number of its first one."""
        numbers = [first]
        while len(numbers) < vectors:
            numbers.append(arith.AddIOp(numbers[-1], self.threads).result)
        return [self._perhaps(each) for each in numbers]

    def edge(self) -> Chunk:
        """The thread's column before or behind the vectors, if any; of a row that is divided the first block has it."""
        assert self.code.head is not None
        inner = arith.MulIOp(self.count, rtcalls.index(self.tile.width)).result
        before = arith.CmpIOp(arith.CmpIPredicate.ult, self.lane, self.code.head).result
        column = arith.SelectOp(before, self.lane, arith.AddIOp(self.lane, inner).result).result
        outer = arith.SubIOp(self.code.space.columns.value, inner).result
        valid = arith.CmpIOp(arith.CmpIPredicate.ult, self.lane, outer).result
        if self.first is not None:
            valid = arith.AndIOp(valid, self.first).result
        return Chunk(column, column, valid)

    def loop(self, running: Sequence[ir.Value], vectors: int, work: Work) -> list[ir.Value]:
        """All chunks in rising order, ``vectors`` at a time and at last one by one: none needs a mask."""
        first = arith.AddIOp(self.begin, self.lane).result
        done = list(running)
        if vectors > 1:
            less = arith.MulIOp(self.threads, rtcalls.index(vectors - 1)).result
            first, done = self._for(first, arith.SubIOp(self.end, less).result, done, vectors, work)
        return self._for(first, self.end, done, 1, work)[1]

    def _for(
        self, first: ir.Value, end: ir.Value, running: Sequence[ir.Value], vectors: int, work: Work
    ) -> tuple[ir.Value, list[ir.Value]]:
        """The running values at the end, and the first number that is left."""
        step = arith.MulIOp(self.threads, rtcalls.index(vectors)).result
        loop = scf.ForOp(first, end, step, [first, *running])
        with ir.InsertionPoint(loop.body):
            numbers = [loop.induction_variable]
            while len(numbers) < vectors:
                numbers.append(arith.AddIOp(numbers[-1], self.threads).result)
            following = arith.AddIOp(numbers[-1], self.threads).result
            scf.YieldOp([following, *work([self._chunk(each) for each in numbers], list(loop.inner_iter_args)[1:])])
        return loop.results[0], list(loop.results)[1:]

    def _perhaps(self, number: ir.Value) -> Chunk:
        """A chunk that may be behind the end of the row, or of the block's part of it."""
        return self._chunk(number, arith.CmpIOp(arith.CmpIPredicate.ult, number, self.end).result)

    def _chunk(self, number: ir.Value, valid: ir.Value | None = None) -> Chunk:
        column = arith.MulIOp(number, rtcalls.index(self.tile.width)).result
        if self.code.head is not None:
            column = arith.AddIOp(column, self.code.head).result
        return Chunk(column, number, valid)


def deal(tile: Tile, code: Evaluator, lane: ir.Value, threads: ir.Value, part: Part | None) -> Deal:
    """Deal out a row, or a part of it."""
    columns, wide = code.space.columns.value, rtcalls.index(tile.width)
    if code.head is not None:
        columns = arith.SubIOp(columns, code.head).result
    count = arith.DivUIOp(columns, wide).result
    if part is None:
        return Deal(tile, code, lane, threads, count, rtcalls.index(0), count, None)
    each = arith.CeilDivUIOp(count, part.count).result
    begin = arith.MinUIOp(arith.MulIOp(each, part.number).result, count).result
    end = arith.MinUIOp(arith.AddIOp(begin, each).result, count).result
    first = arith.CmpIOp(arith.CmpIPredicate.eq, part.number, rtcalls.index(0)).result
    return Deal(tile, code, lane, threads, count, begin, end, first)


def head(row: ir.Value, columns: ir.Value, width: int) -> ir.Value:
    """Columns of a row before its first aligned vector; memory begins at one."""
    begin = arith.MulIOp(row, columns).result
    return bodies.modulo(arith.SubIOp(rtcalls.index(0), begin).result, width)
