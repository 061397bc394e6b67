"""Products on the ordinary units, of numbers of any type.

In: a problem, and a Tile. Out: a ``gpu.launch`` (``registertile``).

A thread holds a rectangle of sums in groups of a vector; each step of ``k`` reads its rows and columns, and multiplies
all by all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import llvm, scf, vector

from aot.lower import rtcalls
from aot.lower.contract import epilogue, instructions, registertile, tiles
from aot.lower.contract.registertile import Form, Job
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split
from aot.lower.contract.words import Word, constant
from aot.lower.fast import bodies

_DOWN, _ACROSS = 4, 8
"""Lanes of a warp below each other and beside each other."""
_VECTOR = 16
"""Bytes."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work."""

    rows: int
    columns: int
    down: int
    """Threads below each other."""
    across: int
    blocks: int
    """On a multiprocessor."""
    steps: int
    """Of ``k`` that are written out: what begins anew in a loop waits for its first numbers."""
    depth: int = 16
    """Of ``k`` at a time."""
    stages: int = 2

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def grid(self) -> tuple[int, int]:
        """Threads along the rows and the columns."""
        return self.down, self.across

    def form(self, element: ir.Type) -> Form:
        """For sums of a type."""
        threads, size = self.down * self.across, rtcalls.storage_bytes(element)
        sizes = (self.rows, self.columns, self.depth, self.stages, threads, self.blocks)
        return Form("ffma", *sizes, size, pad=_VECTOR)


def launch(job: Job, tile: Tile, need: str | None, split: Split | None = None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split.

    ``need``: the architecture of images that hold it, and have asynchronous copies; None: it does without these.
    """
    form, element = tile.form(job.problem.accumulator), job.problem.accumulator
    registertile.launch(job, form, lambda thread: _Units(tile, form, element, thread), need, split)


class _Units:
    """The multiplications of one thread."""

    def __init__(self, tile: Tile, form: Form, element: ir.Type, thread: Word) -> None:
        self.tile, self.form, self.thread = tile, form, thread
        self.vector = max(1, _VECTOR // form.size)
        self.kind = ir.VectorType.get([self.vector], element)
        self.apart = [count * self.vector for count in tile.grid]
        """Elements from one of a thread's vectors to the next, along the rows and the columns."""
        self.groups = [extent // apart for extent, apart in zip(tile.extents, self.apart, strict=True)]
        self.places = [self._place(side) for side in (0, 1)]
        self.zeros = [epilogue.zero(self.kind)] * (self.groups[0] * self.vector * self.groups[1])
        self.heights = [self.apart[0]] * self.groups[0]

    def _place(self, side: int) -> Word:
        """First row (0) or column (1) of the thread in the tile: a warp reads few different vectors of either side."""
        lane, warp = self.thread % (_DOWN * _ACROSS), self.thread // (_DOWN * _ACROSS)
        beside = self.tile.across // _ACROSS
        number = warp % beside * _ACROSS + lane % _ACROSS if side else warp // beside * _DOWN + lane // _ACROSS
        return number * self.vector

    def multiplied(self, starts: tuple[Word, Word], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums with the products of a stage."""
        mine = [start + place * self.form.size for start, place in zip(starts, self.places, strict=True)]
        loop = scf.ForOp(
            constant(0).value, constant(self.tile.depth).value, constant(self.tile.steps).value, list(sums)
        )
        tiles.unrolled(loop.operation, 1)
        with ir.InsertionPoint(loop.body):
            first = Word(loop.induction_variable)
            rows = [each + first * shape.row_bytes for each, shape in zip(mine, self.form.shapes, strict=True)]
            scf.YieldOp(self._steps(rows, list(loop.inner_iter_args)))
        return list(loop.results)

    def _steps(self, rows: Sequence[Word], sums: list[ir.Value]) -> list[ir.Value]:
        """Some steps of ``k``: each reads its numbers while those before are multiplied."""
        factors = self._factors(rows, 0)
        for step in range(1, self.tile.steps):
            ahead = self._factors(rows, step)
            sums, factors = self._products(sums, factors), ahead
        return self._products(sums, factors)

    def _factors(self, rows: Sequence[Word], step: int) -> list[list[ir.Value]]:
        """Vectors of both factors."""
        return [
            [self._vector(row + (step * shape.row_bytes + group * apart * self.form.size)) for group in range(groups)]
            for row, shape, groups, apart in zip(rows, self.form.shapes, self.groups, self.apart, strict=True)
        ]

    def _vector(self, address: Word) -> ir.Value:
        return llvm.LoadOp(self.kind, instructions.pointer(address, 3), alignment=_VECTOR).result

    def _products(self, sums: Sequence[ir.Value], factors: Sequence[list[ir.Value]]) -> list[ir.Value]:
        left, right = factors
        rows = [vector.BroadcastOp(self.kind, each).result for part in left for each in bodies.unpack(part)]
        pairs = [(row, columns) for row in rows for columns in right]
        return [epilogue.accumulated(total, *pair) for total, pair in zip(sums, pairs, strict=True)]

    def store(self, slab: Shared, part: int, sums: Sequence[ir.Value]) -> None:
        """Put a group of rows into shared memory."""
        places = [(row, group) for row in range(self.vector) for group in range(self.groups[1])]
        mine = sums[part * len(places) : (part + 1) * len(places)]
        for value, (row, group) in zip(mine, places, strict=True):
            slab.store(value, [self.places[0] + row], self.places[1] + group * self.apart[1])
