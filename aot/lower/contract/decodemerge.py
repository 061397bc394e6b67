"""The end of a block that has some of the keys: what its warps know of the same rows becomes one, and is stored.

In: each warp's sums and softmax of 16 rows. Out: their sum in shared memory, relative to the largest scores of all; to
memory for parts, if other blocks have other keys of the rows, else to the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, scf

from aot.arch import WARP
from aot.lower.contract import flashwarp, onlinesoftmax, tiles
from aot.lower.contract.decodeparts import PAIR, Parts
from aot.lower.contract.epilogue import Epilogue, Total
from aot.lower.contract.flashjob import Attention
from aot.lower.contract.flashwarp import SIXTEEN, Queries
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.tiles import Block, Target, Worker
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies

_PAD = 8
"""Sums by which a row in shared memory is longer, so that eight rows meet different banks."""
_SUM_BYTES = 4


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
        self.several = constant(1).below(narrow(self.parts.count.value))
        self.warp = block.thread // WARP
        self.row, self.pair = flashwarp.lane_place(block.thread % WARP)

    def emit(self, state: Queries) -> None:
        """All of it."""
        self._merge(state)
        self._give()

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
        one = onlinesoftmax.number(1.0)
        divisor = arith.SelectOp(self.several, one, onlinesoftmax.reciprocal(merged.total, zeros=self.job.zeros)).result
        return arith.MulFOp(onlinesoftmax.factor(mine, merged, self.job.scale), divisor).result

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

    def _give(self) -> None:
        """To memory for parts, if there are several; else to the results."""
        sums, _, pairs = self._views()
        part = (self.part.index(), *self.block.batch)

        def give_part() -> None:
            self._store(sums, Epilogue(None, ((self.parts.sums, Total()),)), part, sums.lanes)
            self._store(pairs, Epilogue(None, ((self.parts.pairs, Total()),)), part, 1)

        def give_results(lanes: int) -> None:
            self._store(sums, self.job.output.epilogue, self.block.batch, lanes)

        wide, width = self.parts.wide, self.parts.width
        tiles.either(
            self.several, give_part, lambda: tiles.either(wide, lambda: give_results(width), lambda: give_results(1))
        )

    def _store(self, slab: Shared, done: Epilogue, batch: tuple[ir.Value, ...], lanes: int) -> None:
        columns = self.job.width if slab.shape[1] > PAIR else 2
        block = replace(self.block, n=constant(columns))
        worker, corner = Worker(self.block.thread, self.threads), (constant(0), constant(0))
        tiles.give(block, slab, corner, (SIXTEEN, columns), worker, Target(done, batch, lanes))


def _keep(row: Row, pairs: Shared, place: Word) -> None:
    """All four threads of a row have the same."""
    pairs.store(row.largest, [place], constant(0))
    pairs.store(row.total, [place], constant(1))
