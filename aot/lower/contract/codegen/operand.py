"""A factor in memory that asynchronous copies can read, and its tiles in shared memory.

In: address and strides as values of host code. Out: an Operand; in a kernel, copies of its tiles and the addresses of
its fragments.

Shared memory holds rows of 16-byte chunks: rows of the factor with ``k`` along them, or the other way round, as memory
has it. A chunk's place is permuted by its row, so that neither copies nor ``ldmatrix`` meet a bank twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.instructions import CHUNK, Kind
from aot.lower.contract.codegen.tiles import Block
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.problem import Factor, Window, address
from aot.lower.fast.regions.places import Extent

_ROWS = 8
"""Of a matrix of ``ldmatrix``."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A factor; all numbers are elements."""

    address: ir.Value
    """Of the first element, in bytes."""
    batch: tuple[Extent, ...]
    pitch: Extent
    turned: bool
    """Whether its outer loop is the contiguous one, not ``k``."""
    window: Window | None = None
    """Set where it is no matrix: pitch counts for nothing then."""

    @staticmethod
    def of(factor: Factor, window: Window | None = None) -> Operand:
        """The operand that a factor is."""
        return Operand(address(factor.memory), factor.batch, factor.pitch, factor.turned, window)


@dataclass(frozen=True)
class Part:
    """The extents of an operand's tile, and of a warp's part of it."""

    outer: int
    depth: int
    warp: int
    """Rows or columns of a warp."""
    is_left: bool
    start: int
    """Byte of a stage at which it begins."""


def start(address: ir.Value, batch: Sequence[ir.Value], strides: Sequence[Extent], size: int) -> Word:
    """Address of a product's factor: at a block's indices in the loops around. ``size``: bytes of an element."""
    begin = Word(address).wide()
    for index, stride in zip(batch, strides, strict=True):
        if stride.static != 0:
            begin = begin + Word(index).wide() * Word(stride.value).wide() * size
    return begin


class Side:
    """One operand in a kernel."""

    def __init__(
        self, operand: Operand, part: Part, kind: Kind, block: Block, base: Word, threads: int, warp0: Word
    ) -> None:
        self.operand, self.part, self.kind, self.block, self.base = operand, part, kind, block, base
        self.lane, self.thread, self.warp0 = block.thread % 32, block.thread, warp0
        self.row_bytes = (part.outer if operand.turned else part.depth) * kind.bytes
        self.chunks = self.row_bytes // CHUNK
        self.step = threads // self.chunks
        self.rows = part.depth if operand.turned else part.outer
        self.first, self.extent = (block.m0, block.m) if part.is_left else (block.n0, block.n)
        self.chunk, self.row = self.thread % self.chunks, self.thread // self.chunks
        self.elements = CHUNK // kind.bytes
        self.begin = start(operand.address, block.batch, operand.batch, kind.bytes)
        self._prepare_copies()
        self._prepare_fragments()

    @property
    def bytes(self) -> int:
        """Of a tile."""
        return self.rows * self.row_bytes

    def _swizzled(self, chunk: Word, row: Word) -> Word:
        """Place of a chunk in its row."""
        if self.chunks >= _ROWS:
            return chunk ^ (row % _ROWS)
        return chunk ^ (row // (_ROWS // self.chunks) % self.chunks)

    def _shared(self, chunk: Word, row: Word) -> Word:
        return self.base + self.part.start + row * self.row_bytes + self._swizzled(chunk, row) * CHUNK

    def _size(self, first: Word, extent: Word) -> Word:
        """Bytes of a chunk that are inside."""
        left = (extent - first) * self.kind.bytes
        return left.least(CHUNK).where(first.below(extent), 0)

    def _prepare_copies(self) -> None:
        """Of a thread's chunks the first one's place; the others follow by equal steps of rows."""
        rows = [self.row + turn for turn in range(0, self.rows, self.step)]
        if self.step % _ROWS == 0:
            first = self._shared(self.chunk, self.row)
            self.targets = [first + turn * self.row_bytes for turn in range(0, self.rows, self.step)]
        else:
            self.targets = [self._shared(self.chunk, row) for row in rows]
        if self.operand.window is not None:
            self._prepare_window(self.operand.window, rows)
            return
        pitch = Word(self.operand.pitch.value).wide() * self.kind.bytes
        self.stride = pitch * self.step
        column = self.first + self.chunk * self.elements
        if self.operand.turned:
            self.pitch = pitch
            self.inside = self._size(column, self.extent)
            self.origin = self.begin + column.wide() * self.kind.bytes + self.row.wide() * pitch
        else:
            place = self.first + self.row
            self.left = (self.extent - place).where(place.below(self.extent), 0)
            self.origin = self.begin + place.wide() * pitch + (self.chunk * CHUNK).wide()

    def _prepare_window(self, window: Window, rows: Sequence[Word]) -> None:
        """Of every row of the thread its place in memory."""
        self.origins = []
        for row in rows:
            place = self.first + row
            within = place.below(self.extent)
            self.origins.append((self.begin + self._offset(window.m, place.where(within, 0)), within))

    def _offset(self, loops: Sequence[tuple[Extent, Extent]], place: Word) -> Word:
        """Bytes that loops add, for their common number."""
        total: Word | None = None
        for number, (extent, stride) in reversed(list(enumerate(loops))):
            size = narrow(extent.value)
            mine = place if number == 0 else place % size
            place = place if number == 0 else place // size
            offset = mine.wide() * Word(stride.value).wide()
            total = offset if total is None else total + offset
        assert total is not None
        return total * self.kind.bytes

    def _copy_window(self, window: Window, stage: Word, k0: Word) -> None:
        k = k0 + self.chunk * self.elements
        size = self._size(k, self.block.k)
        offset = self._offset(window.k, k.where(k.below(self.block.k), 0))
        for (origin, within), target in zip(self.origins, self.targets, strict=True):
            instructions.copy(target + stage, origin + offset, size.where(within, 0))

    def copy(self, stage: Word, k0: Word) -> None:
        """Begin to copy the tile at ``k0`` to a stage, of which the offset is given; nothing outside is read."""
        if self.operand.window is not None:
            self._copy_window(self.operand.window, stage, k0)
            return
        if self.operand.turned:
            source, size, behind = self.origin + k0.wide() * self.pitch, self.inside, self.block.k
            left = (behind - (k0 + self.row)).where((k0 + self.row).below(behind), 0)
        else:
            k = k0 + self.chunk * self.elements
            source, size, left = self.origin + (k0 * self.kind.bytes).wide(), self._size(k, self.block.k), self.left
        for turn, target in enumerate(self.targets):
            within = constant(turn * self.step).below(left)
            instructions.copy(target + stage, source, size.where(within, 0))
            source = source + self.stride

    def _prepare_fragments(self) -> None:
        """Addresses in the first stage, by step of ``k`` and tile of the warp: computed here, loops only choose."""
        lane, rows, tiles = self.lane, 16 * self.row_bytes, range(self.part.warp // 16)
        steps = range(self.part.depth // self.kind.depth)
        half, low = lane // 16, lane % 16
        other, eight = lane // _ROWS % 2, lane // 16 * _ROWS + lane % _ROWS
        if self.operand.turned:
            row, right = (eight, other) if self.part.is_left else (low, half)
            chunk = self.warp0 * self.kind.bytes // CHUNK + right
            across = [self._shared(chunk + 2 * tile, row) for tile in tiles]
            self.places = [[place + step * rows for place in across] for step in steps]
        else:
            row, right = (low, half) if self.part.is_left else (eight, other)
            along = [self._shared(right + 2 * step, self.warp0 + row) for step in steps]
            self.places = [[place + tile * rows for tile in tiles] for place in along]

    def fragments(self, stage: Word, step: Word) -> list[list[ir.Value]]:
        """Registers of each 16 rows or columns of the warp, at a step of ``k``."""
        found = self.places[0]
        for number, others in enumerate(self.places[1:], 1):
            chosen = step.equals(number)
            found = [other.where(chosen, place) for other, place in zip(others, found, strict=True)]
        return [instructions.fragments(place + stage, turned=self.operand.turned) for place in found]


def right_tiles(registers: Sequence[Sequence[ir.Value]]) -> list[Sequence[ir.Value]]:
    """Fragments of 8 columns each."""
    return [each[first : first + 2] for each in registers for first in (0, 2)]
