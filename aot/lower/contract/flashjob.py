"""What a kernel of ``flash`` computes, how it lies in shared memory, and what goes from piece to piece.

In: two problems that belong together. Out: sizes, and the state of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.contract.epilogue import Epilogue
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.problem import Problem

QUERIES, KEYS, STAGES = 128, 128, 2
"""Of a block; of a piece; pieces on their way."""


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
    causal: bool
    """A query sees keys up to its own place only; else all of them."""

    @property
    def bounded(self) -> bool:
        """Whether the epilogue reads memory: only where there is some."""
        return len(self.epilogue.arrays()) > 1


def layout(job: Attention) -> tuple[int, int, int]:
    """Where keys, values and barriers begin in shared memory."""
    keys = QUERIES * job.depth * 2
    values = keys + STAGES * KEYS * job.depth * 2
    return keys, values, values + STAGES * KEYS * job.width * 2


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
