"""Products on the ordinary units: a tile of the result in the registers of a block's threads.

In: a problem of any numbers, and a Tile. Out: a ``gpu.launch``.

Both factors go through a ring of stages in shared memory (``ffmacopies``), ``k`` outermost there. A thread holds a
rectangle of sums in groups of a vector; each step of ``k`` reads its rows and columns, and multiplies all by all. A
number that is read takes a thread as long as four multiplications: 8 x 16 of them leave time to spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import gpu, llvm, scf, vector

from aot.lower import imageneeds, rtcalls
from aot.lower.contract import epilogue, instructions, tiles
from aot.lower.contract.ffmacopies import Place, Shape, Side, Source
from aot.lower.contract.problem import Problem
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split
from aot.lower.contract.tiles import Block, Target, Told, Worker
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies

_DOWN, _ACROSS = 4, 8
"""Lanes of a warp below each other and beside each other."""
_VECTOR = 16
"""Bytes."""
_STEPS = 4
"""Of ``k`` that are written out: more would not be faster, and take longer to compile."""
_PAD = 4
"""Elements by which a row in shared memory is longer, so that columns meet different banks."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work."""

    rows: int
    columns: int
    depth: int
    """Of ``k`` at a time."""
    stages: int
    """Of the ring."""
    down: int
    """Threads below each other."""
    across: int
    blocks: int
    """On a multiprocessor: a thread has the registers that this leaves it."""

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def grid(self) -> tuple[int, int]:
        """Threads along the rows and the columns."""
        return self.down, self.across

    @property
    def threads(self) -> int:
        return self.down * self.across

    def told(self, *, copied: bool) -> Told:
        """For reports."""
        sizes = {"rows": self.rows, "columns": self.columns, "depth": self.depth, "stages": self.stages}
        return Told("ffma", {**sizes, "threads": self.threads}, () if copied else ("through registers",))


@dataclass(frozen=True, eq=False)
class Job:
    """A problem, and how its results may be stored."""

    problem: Problem
    width: int
    """Neighbouring results that are stored at a time if ``wide``."""
    wide: ir.Value | bool
    """Whether all results are whole vectors; a value of host code where that is known at the call only."""


def launch(job: Job, tile: Tile, need: str | None, split: Split | None = None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split.

    ``need``: the architecture of images that hold it, and have asynchronous copies; None: it does without these.
    """
    problem = job.problem
    sources = [Source.of(factor, asynchronous=need is not None) for factor in problem.factors]
    inner = problem if split is None else replace(problem, batch=(split.parts, *problem.batch))
    told, plan = tile.told(copied=need is not None), _Plan(tile, problem.accumulator)
    with tiles.launch(inner, tile.extents, tile.threads, plan.shared_bytes, told) as block:
        block.launch.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), tile.blocks)
        if need:
            imageneeds.mark(block.launch, need)
        _Code(job, plan, block, split).emit(sources)


class _Plan:
    """A tile of numbers of one type: how they lie in registers and in shared memory."""

    def __init__(self, tile: Tile, element: ir.Type) -> None:
        self.tile, self.element, self.size = tile, element, rtcalls.storage_bytes(element)
        self.vector = max(1, _VECTOR // self.size)
        self.kind = ir.VectorType.get([self.vector], element)
        self.groups = [
            extent // threads // self.vector for extent, threads in zip(tile.extents, tile.grid, strict=True)
        ]
        """Vectors of a thread along the rows and the columns."""
        # A row in shared memory is longer by a vector, so that columns meet different banks.
        self.shapes = [
            Shape(extent, tile.depth, tile.threads, self.size, extent * self.size + _VECTOR) for extent in tile.extents
        ]
        sides = [tile.depth * shape.row_bytes for shape in self.shapes]
        self.starts = (0, sides[0])
        """Bytes of a stage at which the factors begin."""
        self.stage = sum(sides)

    @property
    def shared_bytes(self) -> int:
        """The ring, in which a part of the sums lies at the end."""
        return max(self.tile.stages * self.stage, self.tile.down * self.vector * self.shapes[1].row_bytes)


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Job, plan: _Plan, block: Block, split: Split | None) -> None:
        self.job, self.plan, self.tile, self.block, self.split = job, plan, plan.tile, block, split
        self.first, self.behind, self.batch = constant(0), block.k, block.batch
        if split is not None:
            depth = narrow(split.depth.value)
            self.first, self.batch = narrow(block.batch[0]) * depth, block.batch[1:]
            self.behind = block.k.least(self.first + depth)
        base = instructions.shared_base()
        self.bases = [base + start for start in plan.starts]
        self.mine = [start + self._place(side) * plan.size for side, start in enumerate(self.bases)]

    def emit(self, sources: Sequence[Source]) -> None:
        block, last = self.block, self.tile.stages - 1
        corners = ((block.m0, block.m), (block.n0, block.n))
        places = [Place(self.batch, *corner, self.behind, block.thread) for corner in corners]
        given = zip(sources, self.plan.shapes, places, self.bases, strict=True)
        self.sides = [Side(*each) for each in given]
        for stage in range(last):
            self._end(
                constant(stage * self.plan.stage), self._begin(constant(stage * self.plan.stage), constant(stage))
            )
        self._wait(last - 1)
        rows, columns = self.plan.groups
        sums = [epilogue.zero(self.plan.kind)] * (rows * self.plan.vector * columns)
        turns = (self.behind - self.first).tiles(self.tile.depth)
        carried = [*sums, constant(0).value, constant(last * self.plan.stage).value]
        loop = scf.ForOp(constant(0).value, turns.value, constant(1).value, carried)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._turn(Word(loop.induction_variable), list(loop.inner_iter_args)))
        self._wait(0)
        self._finish(list(loop.results)[: len(sums)])

    def _begin(self, stage: Word, turn: Word) -> list[list[ir.Value]]:
        """Have the tiles of a turn brought to a stage."""
        moving = [side.begin(stage, self.first + turn * self.tile.depth) for side in self.sides]
        if any(side.is_copied for side in self.sides):
            instructions.commit()
        return moving

    def _end(self, stage: Word, moving: Sequence[Sequence[ir.Value]]) -> None:
        for side, values in zip(self.sides, moving, strict=True):
            side.end(stage, values)

    def _wait(self, groups: int) -> None:
        """Until at most so many stages are on their way, for all threads, and all have done with the one before."""
        if any(side.is_copied for side in self.sides):
            instructions.wait(groups)
        gpu.BarrierOp()

    def _turn(self, turn: Word, carried: list[ir.Value]) -> list[ir.Value]:
        """One tile of depth: the stage that is filled was last read in the turn before, whose end is a barrier."""
        last = self.tile.stages - 1
        sums = carried[:-2]
        reads, writes = (Word(each) for each in carried[-2:])
        moving = self._begin(writes, turn + last)
        loop = scf.ForOp(constant(0).value, constant(self.tile.depth).value, constant(_STEPS).value, sums)
        tiles.unrolled(loop.operation, 1)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._steps(reads, Word(loop.induction_variable), list(loop.inner_iter_args)))
        sums = list(loop.results)
        self._end(writes, moving)
        self._wait(last - 1)
        return [*sums, self._next(reads).value, self._next(writes).value]

    def _steps(self, stage: Word, first: Word, sums: list[ir.Value]) -> list[ir.Value]:
        """Some steps of ``k``: each reads its numbers while those before are multiplied."""
        starts = [
            mine + stage + first * shape.row_bytes for mine, shape in zip(self.mine, self.plan.shapes, strict=True)
        ]
        factors = self._vectors(starts, 0)
        for step in range(1, _STEPS):
            ahead = self._vectors(starts, step)
            sums, factors = self._multiplied(sums, factors), ahead
        return self._multiplied(sums, factors)

    def _next(self, stage: Word) -> Word:
        behind = stage + self.plan.stage
        return behind.where(behind.below(self.tile.stages * self.plan.stage), 0)

    def _place(self, side: int) -> Word:
        """First row (0) or column (1) of the thread in the tile: a warp reads few different vectors of either side."""
        lane, warp = self.block.thread % (_DOWN * _ACROSS), self.block.thread // (_DOWN * _ACROSS)
        beside = self.tile.across // _ACROSS
        number = warp % beside * _ACROSS + lane % _ACROSS if side else warp // beside * _DOWN + lane // _ACROSS
        return number * self.plan.vector

    def _apart(self, side: int) -> int:
        """Elements from one of a thread's vectors to the next."""
        return self.tile.grid[side] * self.plan.vector

    def _vectors(self, starts: Sequence[Word], step: int) -> list[list[ir.Value]]:
        """Of both factors, at a step of ``k`` behind the one of which the addresses are given."""
        plan = self.plan
        return [
            [
                llvm.LoadOp(plan.kind, instructions.pointer(start + place, 3), alignment=_VECTOR).result
                for place in range(step * shape.row_bytes, step * shape.row_bytes + groups * apart, apart)
            ]
            for start, shape, groups, apart in zip(
                starts, plan.shapes, plan.groups, [self._apart(side) * plan.size for side in (0, 1)], strict=True
            )
        ]

    def _multiplied(self, sums: Sequence[ir.Value], factors: Sequence[list[ir.Value]]) -> list[ir.Value]:
        left, right = factors
        rows = [vector.BroadcastOp(self.plan.kind, each).result for part in left for each in bodies.unpack(part)]
        pairs = [(row, columns) for row in rows for columns in right]
        return [epilogue.accumulated(total, *pair) for total, pair in zip(sums, pairs, strict=True)]

    def _finish(self, sums: Sequence[ir.Value]) -> None:
        """By groups of rows: their sums lie in the ring, one row of the tile after the other."""
        plan = self.plan
        height = self._apart(0)
        slab = Shared(plan.element, [height, plan.shapes[1].row_bytes // plan.size], 0)
        places = [(row, part) for row in range(plan.vector) for part in range(plan.groups[1])]
        for group in range(plan.groups[0]):
            if group:
                gpu.BarrierOp()
            for number, (row, part) in enumerate(places):
                value = sums[group * len(places) + number]
                slab.store(value, [self._place(0) + row], self._place(1) + part * self._apart(1))
            gpu.BarrierOp()
            self._give(slab, (self.block.m0 + group * height, self.block.n0), height)

    def _give(self, slab: Shared, corner: tiles.Corner, rows: int) -> None:
        worker, done = Worker(self.block.thread, self.tile.threads), self.job.problem.epilogue

        def give(target: Target) -> None:
            tiles.give(self.block, slab, corner, (rows, self.tile.columns), worker, target)

        def give_results() -> None:
            wide, single = (Target(done, self.batch, width) for width in (self.job.width, 1))
            tiles.either(self.job.wide, lambda: give(wide), lambda: give(single))

        if self.split is None:
            give_results()
            return
        part = Target(self.split.epilogue, self.block.batch, self.split.width)
        several = constant(1).below(narrow(self.split.parts.value))
        tiles.either(several, lambda: give(part), give_results)
