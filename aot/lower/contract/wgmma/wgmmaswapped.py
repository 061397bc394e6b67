"""Products whose factors change places: rows of a tile are columns of the result, and the other way round.

Instructions take rows by 64 and columns by 8. With the factors' places changed a tile has any multiple of 8 of the
result's rows, and whole boxes of a right factor whose rows are those of the summed loop.

In: a problem, and the one with changed places; in the kernel, as ``wgmmastore``. Out: stores, by TMA through shared
memory, where of each 64 rows of a tile the result's rows are 128 bytes long; or by each thread.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, vector

from aot.lower.contract.codegen import boxes, hopper, instructions
from aot.lower.contract.codegen.boxes import Boxes
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.epilogue import Place
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma.wgmmatile import Tile
from aot.lower.contract.wgmma.wgmmawriter import Writer
from aot.lower.hostmodule import rtcalls

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Corner, Kernel

_HALF, _WHOLE = 2, 4
"""Bytes of elements; of the shorter ones matrices go to shared memory."""


def swapped(job: Problem) -> Problem:
    """The problem with its factors' places changed; its epilogue stays that of the result."""
    return replace(job, m=job.n, n=job.m, left=job.right, right=job.left)


def can_swap(job: Problem) -> bool:
    """Whether a kernel may: results of elements that fill words, and nothing else that lies along rows is read.

    The left factor, which becomes the right one, has to lie along the summed loop.
    """
    element = ir.MemRefType(job.epilogue.stores[0][0].memory.type).element_type
    plain = job.window is None and job.left.along_k and not job.epilogue.read()
    return plain and rtcalls.storage_bytes(element) in (_HALF, _WHOLE)


def is_staged(job: Problem) -> bool:
    """Whether results go through shared memory: of four bytes, those of neighbouring threads fill sectors."""
    return rtcalls.storage_bytes(ir.MemRefType(job.epilogue.stores[0][0].memory.type).element_type) == _HALF


def boxes_of(job: Problem, tile: Tile) -> Boxes | None:
    """Of the result of a problem as it is, for tiles with so many of its rows; None: threads store it."""
    return boxes.of_result(job.epilogue.stores[0][0], job, tile.columns) if is_staged(job) else None


class _Swapped(Writer):
    def place(self, corner: Corner, row: Word, column: Word, width: int) -> Place:
        """In the result, whose rows are the tile's columns."""
        found = super().place(corner, row, column, width)
        return replace(found, row=found.column, column=found.row)

    def spot(self, top: Word, left: Word) -> tuple[Word, Word]:
        """Row and column, in the problem with changed places, of a thread's first of two neighbours of 8 x 8 sums."""
        return top + (self.warp * 16 + self.row), left + self.pair * 2


class SwappedDirect(_Swapped):
    """By each thread: eight of them have neighbours of the result's rows."""

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        for block, half in product(range(self.kernel.tile.columns // 8), range(2)):
            sums = [hopper.element_of(total, 4 * block + 2 * half + place) for place in range(2)]
            self.write_pair(corner, top + 8 * half, corner.n0 + 8 * block, sums)

    def write_pair(self, corner: Corner, top: Word, left: Word, sums: list[ir.Value]) -> None:
        """Store a thread's two neighbouring sums of 8 rows and 8 columns."""
        row, column = self.spot(top, left)
        for place, value in enumerate(sums):
            self._store(corner, row, column + place, value)

    def _store(self, corner: Corner, row: Word, column: Word, value: ir.Value) -> None:
        values = self.results(corner, row, column, [value])
        inside = arith.AndIOp(row.below(self.kernel.m), column.below(self.kernel.n)).result
        exact = Place(tuple(each.index() for each in corner.batch), column.index(), row.index())
        hopper.when(inside, lambda: self.kernel.job.epilogue.store(values, exact))


class SwappedStaged(_Swapped):
    """Through shared memory and TMA."""

    def __init__(self, kernel: Kernel, target: Boxes) -> None:
        super().__init__(kernel)
        self.target = target
        self.buffer = kernel.staging + kernel.consumer * (kernel.tile.columns * SWIZZLE_ROW)
        self.barrier = kernel.consumer + 1
        self.leads = kernel.lane.equals(0)

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        places = product(range(self.kernel.tile.columns // 8), range(2))
        words = [self._word(corner, top, *place, total) for place in places]
        hopper.when(self.leads, lambda: hopper.await_stores(0))
        hopper.warpgroup_sync(self.barrier)
        self._put(words)
        hopper.fence_stores()
        hopper.warpgroup_sync(self.barrier)
        where = self.target.at(top, corner.n0, corner.batch)
        hopper.when(self.leads, lambda: hopper.store_tile(self.target.map, where, self.buffer))

    def finish(self) -> None:
        hopper.when(self.leads, lambda: hopper.await_stores(0))

    def _word(self, corner: Corner, top: Word, block: int, half: int, total: ir.Value) -> Word:
        """Results of two neighbours of a tile's row, which lie below each other in the result."""
        row, column = self.spot(top + 8 * half, corner.n0 + 8 * block)
        sums = [hopper.element_of(total, 4 * block + 2 * half + place) for place in range(2)]
        pair = [self.results(corner, row, column + place, [each])[0] for place, each in enumerate(sums)]
        return instructions.packed(vector.FromElementsOp(ir.VectorType.get([2], pair[0].type), pair).result)

    def _put(self, words: list[Word]) -> None:
        """A warp's 16 columns of the result: 8 x 8 at a time, turned on their way."""
        lane, which = self.lane % 8, self.lane // 8
        piece = (self.warp * 2 + which % 2) ^ lane
        start = self.buffer + (which // 2 * 8 + lane) * SWIZZLE_ROW + piece * 16
        for first in range(0, len(words), 4):
            hopper.store_words(start + first // 2 * 8 * SWIZZLE_ROW, words[first : first + 4], turned=True)
