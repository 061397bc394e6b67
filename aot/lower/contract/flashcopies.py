"""Rows of a factor go to shared memory by asynchronous copies, for the attention kernels of ``mma.sync``.

In: a factor, the loops around the product, threads that share the copies. Out: copies of 16 bytes; addresses for
``ldmatrix``.

A row in shared memory is 16 bytes longer than its elements, an odd number of chunks: eight rows meet different banks,
and what is read of a row later differs from its first chunk by a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.contract import instructions
from aot.lower.contract.instructions import CHUNK
from aot.lower.contract.problem import Factor, address
from aot.lower.contract.words import Word, constant

ELEMENT = 2
"""Bytes of f16 and bf16."""
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
        origin = Word(address(factor.memory)).wide() + (chunk * CHUNK).wide()
        for index, stride in zip(batch, factor.batch, strict=True):
            if stride.static != 0:
                origin = origin + Word(index).wide() * Word(stride.value).wide() * ELEMENT
        self.origin = origin
        self.pitch = Word(factor.pitch.value).wide() * ELEMENT

    def begin(self, stage: Word | int, first: Word, extent: Word) -> None:
        """Begin to copy the rows from ``first`` on; those beyond ``extent`` are zeros, and not read."""
        place = first + self.row
        source = self.origin + place.wide() * self.pitch
        left = (extent - place).where(place.below(extent), 0)
        stride = self.pitch * self.room.step
        for turn in range(self.room.turns):
            below = turn * self.room.step
            inside = constant(below).below(left)
            target = self.target + stage + below * self.room.pitch
            instructions.copy(target, source, constant(CHUNK).where(inside, 0))
            source = source + stride


def by_rows(start: Word, pitch: int, lane: Word) -> Word:
    """A lane's address for 16 rows and the two chunks of one step: of a left factor, or of a turned right one."""
    return start + lane % _SIXTEEN * pitch + lane // _SIXTEEN * CHUNK


def by_columns(start: Word, pitch: int, lane: Word) -> Word:
    """The same for a right factor whose rows are columns of the product: 16 of them."""
    row = lane // _SIXTEEN * _EIGHT + lane % _EIGHT
    return start + row * pitch + lane // _EIGHT % 2 * CHUNK
