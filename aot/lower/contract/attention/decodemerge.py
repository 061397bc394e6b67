"""The end of a block that has some of the keys: what its warps know of the same rows becomes one, and is stored.

In: each warp's sums and softmax of 16 rows. Out: their sum in shared memory, relative to the largest scores of all; to
memory for parts, if other blocks have other keys of the rows, else to the results. Where those blocks are a cluster,
they read each other's shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, scf

from aot.lower.contract.attention import flashwarp, onlinesoftmax
from aot.lower.contract.attention.decodeparts import MOST_TOGETHER, PAIR, Memory, Parts
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.flashwarp import SIXTEEN, Queries
from aot.lower.contract.attention.onlinesoftmax import Row
from aot.lower.contract.codegen import hopper, instructions, sharednumbers, tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block, Target, Worker
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.epilogue import Epilogue, Place, Total
from aot.lower.fast.regions import bodies
from aot.lower.launches import branches
from aot.targets.arch import WARP

_PAD = 8
"""Sums by which a row in shared memory is longer, so that eight rows meet different banks."""
_SUM_BYTES = 4
_FOUR = 4
"""Sums of one load."""


@dataclass(frozen=True)
class Room:
    """What it takes of shared memory, from its beginning on."""

    width: int
    warps: int

    @property
    def rows(self) -> int:
        return self.warps * SIXTEEN

    @property
    def pairs(self) -> int:
        """Where the softmax lies: of all warps' rows, then of the block's."""
        return self.rows * (self.width + _PAD) * _SUM_BYTES

    @property
    def block(self) -> int:
        """Where that of the block's rows lies."""
        return self.pairs + self.rows * PAIR * _SUM_BYTES

    @property
    def bytes(self) -> int:
        return self.block + SIXTEEN * PAIR * _SUM_BYTES


class Merge:
    """The code; ``sync`` lets the threads of all its warps wait for each other."""

    def __init__(
        self, job: Attention, block: Block, share: tuple[Parts, Word], warps: int, sync: Callable[[], None]
    ) -> None:
        self.job, self.block, (self.parts, self.part) = job, block, share
        self.room, self.sync, self.threads = Room(job.width, warps), sync, warps * WARP
        self.count = narrow(self.parts.count.value)
        self.warp = block.thread // WARP
        self.row, self.pair = flashwarp.lane_place(block.thread % WARP)

    def emit(self, state: Queries) -> None:
        """All of it."""
        memory = self.parts.memory
        self._merge(state)
        if memory is None:
            hopper.cluster_sync()
            self._give_together()
            # Others may still read from this block's memory.
            hopper.cluster_sync()
        else:
            self._give(memory)

    def _views(self, lanes: int = 0) -> tuple[Shared, Shared, Shared]:
        """Sums and softmax of the warps' rows, below each other; the softmax of the block's rows."""
        element, room = ir.F32Type.get(), self.room
        sums = Shared(element, [room.rows, self.job.width + _PAD], 0, lanes=lanes)
        block = Shared(element, [SIXTEEN, PAIR], room.block)
        return sums, Shared(element, [room.rows, PAIR], room.pairs), block

    def _merge(self, state: Queries) -> None:
        """The block's sums are the first rows of shared memory then; divided by those of weights if it has all keys."""
        sums, pairs, block = self._views(lanes=2)
        rows = [self.row + 8 * half for half in range(2)]
        mine = [Row(each.largest, onlinesoftmax.whole(each)) for each in state.rows]
        for row, each in zip(rows, mine, strict=True):
            _keep(each, pairs, row + self.warp * SIXTEEN)
        self.sync()
        factors = [self._factor(row, each, pairs, block) for row, each in zip(rows, mine, strict=True)]
        for n in range(0, len(state.sums), 2):
            half, column = n % 4 // 2, self.pair + n // 4 * 8
            values = [arith.MulFOp(value, factors[half]).result for value in state.sums[n : n + 2]]
            sums.store(bodies.pack(values), [rows[half] + self.warp * SIXTEEN], column)
        self.sync()
        self._add_up()
        self.sync()

    def _factor(self, row: Word, mine: Row, pairs: Shared, block: Shared) -> ir.Value:
        """What the warp's sums of a row are multiplied with."""
        all_ = [
            Row(*(pairs.load([row + warp * SIXTEEN], constant(n), 1) for n in range(2)))
            for warp in range(self.room.warps)
        ]
        merged = onlinesoftmax.merged(all_, self.job.scale)
        _keep(merged, block, row)
        found = onlinesoftmax.factor(mine, merged, self.job.scale)
        if self.parts.memory is None:
            return found
        one, divisor = onlinesoftmax.number(1.0), onlinesoftmax.reciprocal(merged.total, zeros=self.job.zeros)
        return arith.MulFOp(found, arith.SelectOp(self._several(), one, divisor).result).result

    def _several(self) -> ir.Value:
        return constant(1).below(self.count)

    def _add_up(self) -> None:
        sums, _, _ = self._views()
        across = self.job.width // sums.lanes
        loop = scf.ForOp(self.block.thread.value, constant(SIXTEEN * across).value, constant(self.threads).value)
        with ir.InsertionPoint(loop.body):
            number = Word(loop.induction_variable)
            row, column = number // across, number % across * sums.lanes
            parts = [sums.load([row + warp * SIXTEEN], column, sums.lanes) for warp in range(self.room.warps)]
            sums.store(onlinesoftmax.total(parts), [row], column)
            scf.YieldOp([])

    def _give(self, memory: Memory) -> None:
        """To memory for parts, if there are several; else to the results."""
        sums, _, pairs = self._views()
        part = (self.part.index(), *self.block.batch)

        def give_part() -> None:
            done = Epilogue(None, ((memory.array, Total()),))
            self._store(sums, (0, self.job.width), Target(done, part, sums.lanes))
            self._store(pairs, (self.job.width, 2), Target(done, part, 1))

        def give_results(lanes: int) -> None:
            self._store(sums, (0, self.job.columns), Target(self.job.output.epilogue, self.block.batch, lanes))

        branches.either(self._several(), give_part, lambda: self._either_width(give_results))

    def _either_width(self, give: Callable[[int], None]) -> None:
        """Whole vectors, where that is possible."""
        branches.either(self.parts.wide, lambda: give(self.parts.width), lambda: give(1))

    def _give_together(self) -> None:
        """The blocks of the cluster have the parts, and each gives the results of some rows."""
        mine = (self.block.m + (self.count - 1 - self.part)) // self.count
        self._either_width(lambda lanes: self._give_rows(mine, lanes))

    def _give_rows(self, rows: Word, lanes: int) -> None:
        across, done = self.job.columns // lanes, self.job.output.epilogue
        loop = scf.ForOp(self.block.thread.value, (rows * across).value, constant(self.threads).value)
        with ir.InsertionPoint(loop.body):
            number = Word(loop.induction_variable)
            row, column = self.part + number // across * self.count, number % across * lanes
            at = Place(self.block.batch, row.index(), column.index(), lanes)
            done.store(done.values(self._whole(row, column, lanes), at), at)
            scf.YieldOp([])

    def _whole(self, row: Word, column: Word, lanes: int) -> ir.Value:
        """Neighbouring results: all parts' sums together, divided by those of the weights."""
        base = instructions.shared_base()
        pair = base + self.room.block + row * (PAIR * _SUM_BYTES)
        place = base + row * ((self.job.width + _PAD) * _SUM_BYTES) + column * _SUM_BYTES
        rows, sums = [], []
        for number in range(MOST_TOGETHER):
            part = constant(number).least(self.count - 1)
            there = constant(number).below(self.count)
            largest, total = (sharednumbers.kept_number(pair + n * _SUM_BYTES, part) for n in range(2))
            rows.append(
                Row(*onlinesoftmax.there(there, [largest], float("-inf")), *onlinesoftmax.there(there, [total]))
            )
            sums.append(onlinesoftmax.there(there, _numbers(place, part, lanes)))
        merged = onlinesoftmax.merged(rows, self.job.scale)
        divisor = onlinesoftmax.reciprocal(merged.total, zeros=self.job.zeros)
        factors = [arith.MulFOp(onlinesoftmax.factor(each, merged, self.job.scale), divisor).result for each in rows]
        found = []
        for parts in zip(*sums, strict=True):
            found.append(onlinesoftmax.total([arith.MulFOp(*each).result for each in zip(parts, factors, strict=True)]))
        return found[0] if lanes == 1 else bodies.pack(found)

    def _store(self, slab: Shared, columns: tuple[int, int], target: Target) -> None:
        """All rows; ``columns``: the first one, and how many."""
        first, count = columns
        block = replace(self.block, n=constant(first + count))
        worker, corner = Worker(self.block.thread, self.threads), (constant(0), constant(first))
        tiles.give(block, slab, corner, (SIXTEEN, count), worker, target)


def _keep(row: Row, pairs: Shared, place: Word) -> None:
    """All four threads of a row have the same."""
    pairs.store(row.largest, [place], constant(0))
    pairs.store(row.total, [place], constant(1))


def _numbers(place: Word, part: Word, lanes: int) -> list[ir.Value]:
    """Neighbouring sums of a part."""
    if lanes < _FOUR:
        return [sharednumbers.kept_number(place + n * _SUM_BYTES, part) for n in range(lanes)]
    step = _FOUR * _SUM_BYTES
    fours = [sharednumbers.kept(place + n * step, part, ir.F32Type.get(), _FOUR) for n in range(lanes // _FOUR)]
    return [value for four in fours for value in four]
