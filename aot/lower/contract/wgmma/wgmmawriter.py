"""What all ways from a warpgroup's sums to memory share: a thread's places, and the source's own operations.

In: a kernel and, for each tile, its place and a thread's sums. Out: results of neighbouring sums.

A thread has, of each 8 columns, two neighbours in each of two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import llvm, vector

from aot.lower.contract.codegen import hopper
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARP
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.epilogue import Place

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Corner, Kernel

Pairs = list[tuple[ir.Value, ...]]
"""Of each 8 columns of a chunk, a thread's two results of the upper 8 rows, and of the lower ones."""
ROWS = 64
"""Of one instruction's sums."""


class Writer:
    """What both ways share: a thread's places in its warpgroup's rows."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        lane = kernel.lane % WARP
        self.warp = kernel.lane // WARP
        self.row, self.pair = lane // 4, lane % 4
        self.lane = lane

    def write(self, corner: Corner, sums: list[ir.Value]) -> None:
        """Store a tile."""
        tile = self.kernel.tile
        for number, total in enumerate(sums):
            below = self.kernel.consumer * (tile.rows // tile.groups) + number * ROWS
            self.write_rows(corner, corner.m0 + below, number, total)

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        """Store 64 rows of a tile, from ``top`` on."""
        raise AssertionError

    def finish(self) -> None:
        """All tiles are stored."""

    def combine(self) -> None:
        """All blocks of a cluster have the sums of their parts."""

    def place(self, corner: Corner, row: Word, column: Word, width: int) -> Place:
        """A place inside of the result, the nearest one if need be: what is read there reaches nobody."""
        row, column = row.least(self.kernel.m - 1), column.least(self.kernel.n - width)
        return Place(tuple(each.index() for each in corner.batch), row.index(), column.index(), width)

    def results(self, corner: Corner, row: Word, column: Word, sums: list[ir.Value]) -> list[ir.Value]:
        """Results of neighbouring sums of a row."""
        kind = ir.VectorType.get([len(sums)], self.kernel.job.accumulator)
        given = sums[0] if len(sums) == 1 else vector.FromElementsOp(kind, sums).result
        return self.kernel.job.epilogue.values(given, self.place(corner, row, column, len(sums)))

    def put_words(self, results: Pairs, start: Word) -> None:
        """A warp's 16 rows of 32 32-bit elements go to shared memory, 8 bytes of a row each."""
        for block, pairs in enumerate(results):
            for half, value in enumerate(pairs):
                piece = (self.pair // 2 + 2 * block) ^ self.row
                where = start + (self.row + 8 * half) * SWIZZLE_ROW + piece * 16 + (self.pair & 1) * 8
                llvm.StoreOp(value, hopper.pointer(where), alignment=8)
