"""Products on the ordinary units, of numbers of any type.

In: a problem, and a Tile. Out: a ``gpu.launch`` (``registertile``).

A thread holds a rectangle of sums in groups of a vector; each step of ``k`` reads its rows and columns, and multiplies
all by all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf, vector

from aot.lower.contract.codegen import registers, sharednumbers, tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.splitting import Split
from aot.lower.contract.simt import ffmacode, registertile
from aot.lower.contract.simt.registertile import Ahead, Job, Starts
from aot.lower.contract.simt.tileform import Form
from aot.lower.fast.regions import bodies
from aot.lower.hostmodule import rtcalls
from aot.targets.arch import WARP

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
        return Form("ffma", *sizes, size, pads=(_VECTOR, _VECTOR))


def launch(job: Job, tile: Tile, need: str | None, split: Split | None = None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split.

    ``need``: the architecture of images that hold it, and have asynchronous copies; None: it does without these.
    """
    form, element = tile.form(job.problem.accumulator), job.problem.accumulator
    registertile.launch(job, form, lambda thread: _Units(tile, form, element, thread), need, split, ffmacode.Code)


class _Units:
    """The multiplications of one thread."""

    def __init__(self, tile: Tile, form: Form, element: ir.Type, thread: Word) -> None:
        self.tile, self.form = tile, form
        self.vector = max(1, _VECTOR // form.size)
        self.kind = ir.VectorType.get([self.vector], element)
        self.apart = [count * self.vector for count in tile.grid]
        """Elements from one of a thread's vectors to the next, along the rows and the columns."""
        self.groups = [extent // apart for extent, apart in zip(tile.extents, self.apart, strict=True)]
        self.places = self._places(thread)
        self.zeros = [epilogue.zero(self.kind)] * (self.groups[0] * self.vector * self.groups[1])
        self.heights = [self.apart[0]] * self.groups[0]

    def _places(self, thread: Word) -> tuple[Word, Word]:
        """First row and column of the thread in the tile: a warp reads few different vectors of either side.

        Lanes beside each other by number are in turn beside each other and below each other: where neighbours, or each
        other lane, want the same vector, half a warp is served at once instead of a quarter.
        """
        lane, warp = thread % WARP, thread // WARP
        beside = self.tile.across // _ACROSS
        row = warp // beside * _DOWN + lane // (2 * _ACROSS) * 2 + lane % 2
        column = warp % beside * _ACROSS + lane // 2 % _ACROSS
        return row * self.vector, column * self.vector

    def first(self, starts: Starts) -> list[ir.Value]:
        """Both factors' vectors of a stage's first step."""
        return self._factors(starts, constant(0), sharednumbers.read_here)

    def multiplied(
        self, starts: Starts, sums: Sequence[ir.Value], first: Sequence[ir.Value], ahead: Ahead
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with the products of a stage: each step's numbers are read while those before are multiplied."""
        last, count = self.tile.depth - 1, len(sums)
        loop = scf.ForOp(constant(0).value, constant(last).value, constant(1).value, [*sums, *first])
        # Unrolled by LLVM: what comes before handles one step instead of all.
        tiles.unrolled(loop.operation, last)
        with ir.InsertionPoint(loop.body):
            step = Word(loop.induction_variable)
            carried = list(loop.inner_iter_args)
            following = self._factors(starts, step + 1, sharednumbers.read)
            scf.YieldOp([*self._products(carried[:count], carried[count:]), *following])
        done = list(loop.results)
        following = ahead()
        return self._products(done[:count], done[count:]), following

    def _factors(self, starts: Starts, step: Word, read: sharednumbers.Read) -> list[ir.Value]:
        """Vectors of both factors."""
        return [
            read(
                start + place * self.form.size + step * shape.row_bytes + group * apart * self.form.size,
                self.kind,
                _VECTOR,
            )
            for start, place, shape, groups, apart in zip(
                starts, self.places, self.form.shapes, self.groups, self.apart, strict=True
            )
            for group in range(groups)
        ]

    def _products(self, sums: Sequence[ir.Value], factors: Sequence[ir.Value]) -> list[ir.Value]:
        left, right = factors[: self.groups[0]], factors[self.groups[0] :]
        rows = [vector.BroadcastOp(self.kind, each).result for part in left for each in bodies.unpack(part)]
        pairs = [(row, columns) for row in rows for columns in right]
        return [epilogue.accumulated(total, *pair) for total, pair in zip(sums, pairs, strict=True)]

    def store(self, slab: Shared, part: int, sums: Sequence[ir.Value]) -> None:
        """Put a group of rows into shared memory."""
        # Computed again: kept from before the loop, they would take registers.
        top, left = self._places(registers.thread_again())
        places = [(row, group) for row in range(self.vector) for group in range(self.groups[1])]
        mine = sums[part * len(places) : (part + 1) * len(places)]
        for value, (row, group) in zip(mine, places, strict=True):
            slab.store(value, [top + row], left + group * self.apart[1])
