"""From a warpgroup's sums to memory, through the source's own operations.

In: a problem and a tile; in the kernel, a tile's place and a thread's sums of it. Out: stores.

``staged``: elements go to shared memory in chunks of 64 rows of 128 bytes, from where TMA copies store them; what lies
outside of the result is left out there, and the stores run while the next tile is computed. ``direct``: each thread
stores its own elements, for results that TMA cannot store; if rows begin anywhere, warps store ``along rows``
(``wgmmarows``). ``split``: sums of a part of the summed loop stay in shared memory until those of all parts are there;
then each block of the cluster adds up some of the sums, and stores them directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.codegen import boxes, hopper, sharednumbers
from aot.lower.contract.codegen.boxes import Boxes
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARPGROUP
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products.epilogue import Array, Place
from aot.lower.contract.products.problem import Problem, address
from aot.lower.contract.wgmma import wgmmarows, wgmmaswapped
from aot.lower.contract.wgmma.wgmmarows import Rows
from aot.lower.contract.wgmma.wgmmaswapped import SwappedDirect, SwappedStaged
from aot.lower.contract.wgmma.wgmmatile import CHUNK, Tile
from aot.lower.contract.wgmma.wgmmawriter import ROWS, Pairs, Writer
from aot.lower.hostmodule import rtcalls

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Corner, Kernel


@dataclass(frozen=True, eq=False)
class Store:
    """How a kernel stores; made in host code."""

    boxes: Boxes | None
    """For staged stores."""
    width: int
    """Neighbouring elements that the epilogue computes together: 2, or 1 where rows may end with half a pair."""
    address: ir.Value | None = None
    """Of the result's first element, in bytes, for stores along rows."""
    swapped: bool = False
    """Whether rows of a tile are columns of the result."""

    @property
    def remarks(self) -> tuple[str, ...]:
        if self.swapped:
            return "swapped", "staged" if self.boxes else "direct"
        if self.boxes or self.address:
            return ("staged",) if self.boxes else ("along rows",)
        return ("direct",) if self.width == 2 else ("direct", "single elements")

    def begin(self, kernel: Kernel) -> Writer:
        """The writer of a kernel's consumers."""
        if self.address:
            return Rows(kernel, self.address)
        if self.boxes:
            return (SwappedStaged if self.swapped else Staged)(kernel, self.boxes)
        direct = SwappedDirect(kernel) if self.swapped else Direct(kernel, self.width)
        return Split(kernel, direct) if kernel.tile.is_split else direct


def of(job: Problem, tile: Tile, *, staged: bool, width: int) -> Store:
    """The way to store a problem's results: by TMA if it may, unless a tile's sums are in parts."""
    staged = staged and not tile.is_split
    if tile.swapped:
        return Store(wgmmaswapped.boxes_of(job, tile) if staged else None, width, swapped=True)
    if staged:
        return Store(boxes.of_result(job.epilogue.stores[0][0], job, ROWS), width)
    along = width == 1 and wgmmarows.can_store(job, tile)
    return Store(None, width, address(job.epilogue.stores[0][0].memory) if along else None)


class Direct(Writer):
    """By each thread."""

    def __init__(self, kernel: Kernel, width: int) -> None:
        super().__init__(kernel)
        self.width = width

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        self._write_blocks(corner, top, total, 0)

    def _write_blocks(self, corner: Corner, top: Word, total: ir.Value, first: int) -> None:
        """All columns from a multiple of 8 on."""
        for block, half in product(range(first // 8, self.kernel.tile.columns // 8), range(2)):
            sums = [hopper.element_of(total, 4 * block + 2 * half + place) for place in range(2)]
            self.write_pair(corner, top + 8 * half, corner.n0 + 8 * block, sums)

    def write_pair(self, corner: Corner, top: Word, left: Word, sums: list[ir.Value]) -> None:
        """Store a thread's two neighbouring sums of 8 rows and 8 columns."""
        for part in range(0, 2, self.width):
            row, column = top + (self.warp * 16 + self.row), left + self.pair * 2 + part
            values = self.results(corner, row, column, sums[part : part + self.width])
            self._store(corner, row, column, values)

    def _store(self, corner: Corner, row: Word, column: Word, values: list[ir.Value]) -> None:
        inside = arith.AndIOp(row.below(self.kernel.m), column.below(self.kernel.n)).result
        exact = Place(tuple(each.index() for each in corner.batch), row.index(), column.index(), self.width)
        hopper.when(inside, lambda: self.kernel.job.epilogue.store(values, exact))


class Staged(Direct):
    """Through shared memory and TMA; columns that fill no chunk directly."""

    def __init__(self, kernel: Kernel, target: Boxes) -> None:
        super().__init__(kernel, 2)
        self.target = target
        array: Array = kernel.job.epilogue.stores[0][0]
        self.element = ir.MemRefType(array.memory.type).element_type
        self.columns = SWIZZLE_ROW // rtcalls.storage_bytes(self.element)
        self.buffers = kernel.staging + kernel.consumer * (kernel.tile.chunks * CHUNK)
        self.barrier = kernel.consumer + 1
        self.leads = kernel.lane.equals(0)

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        chunks, at_once = self.kernel.tile.columns // self.columns, self.kernel.tile.chunks
        for first in range(0, chunks, at_once):
            # What the epilogue reads is asked for together, before threads wait for each other.
            those = range(first, min(chunks, first + at_once))
            results = [self._results(corner, top, chunk, total) for chunk in those]
            for chunk, values in zip(those, results, strict=True):
                self._send(corner, top, corner.n0 + chunk * self.columns, values, number * chunks + chunk)
        self._write_blocks(corner, top, total, chunks * self.columns)

    def _results(self, corner: Corner, top: Word, chunk: int, total: ir.Value) -> Pairs:
        return [
            tuple(self._pair(corner, top, chunk, block, half, total) for half in range(2))
            for block in range(self.columns // 8)
        ]

    def _send(self, corner: Corner, top: Word, left: Word, results: Pairs, turn: int) -> None:
        chunks = self.kernel.tile.chunks
        buffer = self.buffers + turn % chunks * CHUNK
        # A tile's first chunk may follow one of the same buffer.
        hopper.when(self.leads, lambda: hopper.await_stores(chunks - 1 if turn else 0))
        hopper.warpgroup_sync(self.barrier)
        if self.columns == ROWS:
            start = buffer + self.warp * (16 * SWIZZLE_ROW)
            hopper.store_halves(start, self.lane, lambda block, half: results[block][half])
        else:
            self.put_words(results, buffer + self.warp * (16 * SWIZZLE_ROW))
        hopper.fence_stores()
        hopper.warpgroup_sync(self.barrier)
        where = self.target.at(left, top, corner.batch)
        hopper.when(self.leads, lambda: hopper.store_tile(self.target.map, where, buffer))

    def finish(self) -> None:
        hopper.when(self.leads, lambda: hopper.await_stores(0))

    def _pair(self, corner: Corner, top: Word, chunk: int, block: int, half: int, total: ir.Value) -> ir.Value:
        """Two results of a chunk's block of 8 columns."""
        row = top + (self.warp * 16 + self.row) + 8 * half
        number = chunk * (self.columns // 8) + block
        sums = [hopper.element_of(total, 4 * number + 2 * half + place) for place in range(2)]
        return self.results(corner, row, corner.n0 + 8 * number + self.pair * 2, sums)[0]


class Split(Writer):
    """Through the shared memory of all blocks of the cluster: the ring's, which is read by then.

    Each block adds up some pieces of all threads' sums: of 8 columns a thread has one piece, four sums, or where these
    are too few for the blocks two, one in each of its rows.
    """

    def __init__(self, kernel: Kernel, target: Direct | SwappedDirect) -> None:
        super().__init__(kernel)
        self.target, tile = target, kernel.tile
        self.size = 4 if tile.columns // 8 % tile.splits == 0 else 2
        self.pieces = tile.columns // 2 // self.size
        assert self.pieces % tile.splits == 0
        assert self.pieces * tile.groups * WARPGROUP * self.size * sharednumbers.WORD <= tile.stages * tile.stage_bytes

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        hopper.warpgroup_sync(constant(1), self.kernel.tile.groups)
        for piece in range(self.pieces):
            sums = [hopper.element_of(total, self.size * piece + place) for place in range(self.size)]
            sharednumbers.keep(self._address(constant(piece)), sums)

    def combine(self) -> None:
        tile, corner = self.kernel.tile, self.kernel.corner(self.kernel.first)
        share = self.pieces // tile.splits
        for number in range(share):
            piece = self.kernel.rank * share + number
            where = self._address(piece)
            parts = [
                sharednumbers.kept(where, constant(part), self.kernel.job.accumulator, self.size)
                for part in range(tile.splits)
            ]
            self._store(corner, piece, [_total(those) for those in zip(*parts, strict=True)])

    def _address(self, piece: Word) -> Word:
        number = (piece * self.kernel.tile.groups + self.kernel.consumer) * WARPGROUP + self.kernel.lane
        return self.kernel.ring + number * (self.size * sharednumbers.WORD)

    def _store(self, corner: Corner, piece: Word, sums: list[ir.Value]) -> None:
        top = corner.m0 + self.kernel.consumer * ROWS
        if self.size == 2:
            self.target.write_pair(corner, top + piece % 2 * 8, corner.n0 + piece // 2 * 8, sums)
            return
        for half in range(2):
            self.target.write_pair(corner, top + 8 * half, corner.n0 + piece * 8, sums[2 * half : 2 * half + 2])


def _total(parts: Sequence[ir.Value]) -> ir.Value:
    """Their sum, in this order."""
    total = parts[0]
    for each in parts[1:]:
        total = (arith.AddFOp if isinstance(total.type, ir.FloatType) else arith.AddIOp)(total, each).result
    return total
