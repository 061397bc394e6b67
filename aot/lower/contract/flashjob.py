"""What a kernel of ``flash`` computes, how it lies in shared memory, and what goes from piece to piece.

In: two problems that belong together. Out: sizes, and the state of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.contract import hopper
from aot.lower.contract.epilogue import Epilogue
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.problem import Problem
from aot.lower.contract.words import Word, constant

STAGES = 2
"""Pieces on their way."""
_ROWS = 64
"""Queries of a warpgroup."""
KEY, VALUE = 0, 1
"""The two rings."""
_BARRIER = 8


@dataclass(frozen=True)
class Shape:
    """How a block of ``flash`` divides the work."""

    groups: int
    """Consumer warpgroups."""
    keys: int
    """Of a piece."""
    registers: tuple[int, int]
    """Of a thread of the producer's warpgroup, and of a consumer."""

    @property
    def queries(self) -> int:
        """Of a tile."""
        return self.groups * _ROWS


SQUARE, TALL = Shape(2, 128, (24, 240)), Shape(3, 96, (32, 160))


@dataclass(frozen=True, eq=False)
class Attention:
    """What one kernel computes."""

    scores: Problem
    """Queries (left) by keys (right); the epilogue stores what the softmax is taken of."""
    output: Problem
    """Its right factor are the values; loops around it are those of the scores."""
    depth: int
    """Elements of a query."""
    width: int
    """Elements of a value."""
    epilogue: Epilogue
    """What becomes of a score that a query sees."""
    scale: float
    """What is left to multiply it with, before its softmax."""
    causal: bool
    """A query sees keys up to its own place only; else all of them."""

    zeros: bool
    """Results of a query that sees no key are zeros, not NaN."""
    staged: bool
    """TMA can store the result, 16-bit elements."""
    shape: Shape = SQUARE

    @property
    def bounded(self) -> bool:
        """Whether the epilogue reads memory: only where there is some."""
        return len(self.epilogue.arrays()) > 1


def layout(job: Attention) -> tuple[int, int, int]:
    """Where keys, values and barriers begin in shared memory; two tiles of queries come first."""
    keys = 2 * query_bytes(job)
    values = keys + STAGES * job.shape.keys * job.depth * 2
    return keys, values, values + STAGES * job.shape.keys * job.width * 2


def query_bytes(job: Attention) -> int:
    """Of a block's queries."""
    return job.shape.queries * job.depth * 2


@dataclass(frozen=True, eq=False)
class State:
    """What goes from piece to piece: scores that are being computed, sums, and the softmax of two rows so far."""

    scores: ir.Value
    sums: list[ir.Value]
    rows: tuple[Row, Row]

    def flat(self) -> list[ir.Value]:
        return [self.scores, *self.sums, *(value for row in self.rows for value in (row.largest, row.total))]

    @staticmethod
    def of(values: Sequence[ir.Value]) -> State:
        scores, *sums, a, b, c, d = values
        return State(scores, sums, (Row(a, b), Row(c, d)))


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile of queries."""

    number: Word
    m0: Word
    batch: tuple[Word, ...]
    pieces: Word
    """Of keys that one of its queries sees."""
    used: Word
    """Pieces of the tiles before it: they go on around the rings."""
    turn: Word
    """Tiles before it."""


class Ring:
    """Barriers: of two tiles of queries, and of each ring's stages."""

    BYTES = (4 + 4 * STAGES) * _BARRIER

    def __init__(self, start: Word) -> None:
        self.start = start

    def queries_full(self, slot: Word) -> Word:
        return self.start + slot * _BARRIER

    def queries_empty(self, slot: Word) -> Word:
        return self.start + (slot + 2) * _BARRIER

    def full(self, side: int, slot: Word) -> Word:
        return self.start + (slot + (4 + 2 * side * STAGES)) * _BARRIER

    def empty(self, side: int, slot: Word) -> Word:
        return self.start + (slot + (4 + (2 * side + 1) * STAGES)) * _BARRIER

    def prepare(self, groups: int) -> None:
        """Make all barriers; a stage is free when as many consumers have read it."""
        for slot in range(2):
            hopper.make_barrier(self.queries_full(constant(slot)), 1)
            hopper.make_barrier(self.queries_empty(constant(slot)), groups)
        for side in (KEY, VALUE):
            for slot in range(STAGES):
                hopper.make_barrier(self.full(side, constant(slot)), 1)
                hopper.make_barrier(self.empty(side, constant(slot)), groups)
        hopper.fence_made_barriers()
