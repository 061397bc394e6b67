"""Rows of a factor go to shared memory by asynchronous copies, for the attention kernels of ``mma.sync``.

In: a factor, the loops around the product, threads that share the copies. Out: copies of 16 bytes; addresses for
``ldmatrix``.

A row in shared memory is 16 bytes longer than its elements, an odd number of chunks: eight rows meet different banks,
and what is read of a row later differs from its first chunk by a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.flashwarp import Address
from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW
from aot.lower.contract.codegen.instructions import CHUNK
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products.problem import Factor, address

ELEMENT = 2
"""Bytes of f16 and bf16."""
_STEP_BYTES = 32
"""Of 16 elements."""
_EIGHT, _SIXTEEN = 8, 16
"""Rows of one matrix of ``ldmatrix``, and of two below each other."""


@dataclass(frozen=True)
class Room:
    """Where rows lie in shared memory."""

    rows: int
    elements: int
    """Of a row: a multiple of 16."""
    threads: int
    """That copy them."""

    @property
    def pitch(self) -> int:
        """Bytes from row to row."""
        return self.elements * ELEMENT + CHUNK

    @property
    def chunks(self) -> int:
        """Copies for a row."""
        return self.elements * ELEMENT // CHUNK

    @property
    def step(self) -> int:
        """Rows that the threads copy at a time."""
        return self.threads // self.chunks

    @property
    def turns(self) -> int:
        return -(-self.rows // self.step)

    @property
    def bytes(self) -> int:
        """With the rows behind the last one that threads copy where these are no whole number of rows."""
        return ((self.turns - 1) * self.step + -(-self.threads // self.chunks)) * self.pitch


class Copies:
    """A thread's copies of a factor's rows to one place, or to the stages of a ring."""

    def __init__(self, room: Room, factor: Factor, batch: Sequence[ir.Value], thread: Word, start: Word) -> None:
        self.room, self.row = room, thread // room.chunks
        chunk = thread % room.chunks
        self.target = start + self.row * room.pitch + chunk * CHUNK
        self.origin = _origin(factor, batch, chunk)
        own = ir.MemRefType(factor.memory.type).shape[-1] * ELEMENT // CHUNK
        self.inside = chunk.below(own) if own < room.chunks else None
        self.pitch = Word(factor.pitch.value).wide() * ELEMENT

    def begin(self, stage: Word | int, first: Word, extent: Word) -> None:
        """Begin to copy the rows from ``first`` on; those beyond ``extent`` are zeros, and not read.

        So are the elements of a room behind a row's own.
        """
        place = first + self.row
        source = self.origin + place.wide() * self.pitch
        left = (extent - place).where(place.below(extent), 0)
        stride = self.pitch * self.room.step
        for turn in range(self.room.turns):
            below = turn * self.room.step
            inside = constant(below).below(left)
            if self.inside is not None:
                inside = arith.AndIOp(inside, self.inside).result
            target = self.target + stage + below * self.room.pitch
            instructions.copy(target, source, constant(CHUNK).where(inside, 0))
            source = source + stride


class TurnedCopies:
    """The same of a factor of which a piece is some columns of all rows: keys whose elements lie below each other."""

    def __init__(self, room: Room, factor: Factor, batch: Sequence[ir.Value], thread: Word, start: Word) -> None:
        self.room, self.row, self.chunk = room, thread // room.chunks, thread % room.chunks
        self.target = start + self.row * room.pitch + self.chunk * CHUNK
        self.pitch = Word(factor.pitch.value).wide() * ELEMENT
        self.origin = _origin(factor, batch, self.chunk) + self.row.wide() * self.pitch
        self.rows: int = ir.MemRefType(factor.memory.type).shape[-2]

    def begin(self, stage: Word | int, first: Word, extent: Word) -> None:
        """Begin to copy the columns from ``first`` on; those beyond ``extent`` are zeros, and rows behind the last."""
        source, column = self.origin + first.wide() * ELEMENT, first + self.chunk * _EIGHT
        left = (((extent - column) * ELEMENT).least(CHUNK)).where(column.below(extent), 0)
        stride = self.pitch * self.room.step
        for turn in range(self.room.turns):
            below = turn * self.room.step
            target = self.target + stage + below * self.room.pitch
            inside = (self.row + below).below(self.rows)
            instructions.copy(target, source, left.where(inside, 0))
            source = source + stride


def keys_of(job: Attention, keys: int, threads: int) -> Room:
    """Where a piece of keys lies: a key's elements beside each other, or below each other."""
    return Room(job.depth, keys, threads) if job.turned else Room(keys, job.depth, threads)


def key_copies(
    job: Attention, room: Room, batch: Sequence[ir.Value], thread: Word, start: Word
) -> Copies | TurnedCopies:
    """A thread's copies of pieces of keys."""
    return (TurnedCopies if job.turned else Copies)(room, job.scores.right, batch, thread, start)


def key_places(job: Attention, start: Word, lane: Word) -> Place:
    """What a lane names of a piece of keys."""
    return (by_rows if job.turned else by_columns)(start, lane)


def _origin(factor: Factor, batch: Sequence[ir.Value], chunk: Word) -> Word:
    """Address of a chunk of the first row."""
    origin = Word(address(factor.memory)).wide() + (chunk * CHUNK).wide()
    for index, stride in zip(batch, factor.batch, strict=True):
        if stride.static != 0:
            origin = origin + Word(index).wide() * Word(stride.value).wide() * ELEMENT
    return origin


def by_rows(start: Word, lane: Word) -> Place:
    """Which of 16 rows and two chunks a lane names for ``ldmatrix``: of a left factor, or of a turned right one."""
    return Place(start, lane % _SIXTEEN, lane // _SIXTEEN)


def by_columns(start: Word, lane: Word) -> Place:
    """The same for a right factor whose rows are columns of the product."""
    return Place(start, lane // _SIXTEEN * _EIGHT + lane % _EIGHT, lane // _EIGHT % 2)


@dataclass(frozen=True, eq=False)
class Place:
    """A lane's row and chunk of the first 16 rows and two chunks of a tile."""

    start: Word
    row: Word
    chunk: Word

    def padded(self, pitch: int) -> Callable[[Word | int], Address]:
        """Addresses, by the offset of a stage, where rows lie as ``Copies`` puts them."""
        first = self.start + self.row * pitch + self.chunk * CHUNK
        return lambda stage: lambda tile, step: first + stage + (tile * _SIXTEEN * pitch + step * _STEP_BYTES)

    def swizzled(self, rows: int) -> Callable[[Word | int], Address]:
        """The same where they lie as TMA puts boxes of 128 bytes of some rows: pieces of 16 bytes are permuted."""
        steps = SWIZZLE_ROW // _STEP_BYTES
        pieces = [(self.chunk + 2 * step) ^ (self.row % _EIGHT) for step in range(steps)]
        first = [self.start + self.row * SWIZZLE_ROW + piece * CHUNK for piece in pieces]

        def address(stage: Word | int, tile: int, step: int) -> Word:
            box, inside = divmod(step, steps)
            return first[inside] + stage + (box * rows + tile * _SIXTEEN) * SWIZZLE_ROW

        return lambda stage: lambda tile, step: address(stage, tile, step)
