"""A kernel whose blocks hold a tile of the result in registers, and read the factors number by number.

In: a problem, the tile's Form, and the Units that multiply. Out: a ``gpu.launch``.

Both factors go through a ring of stages in shared memory (``numbercopies``). At the end the ring takes the sums, some
rows of the tile after the others, for the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mlir import ir
from mlir.dialects import gpu, scf

from aot.lower.contract.codegen import instructions, registers, sharednumbers, tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.sharednumbers import Aside
from aot.lower.contract.codegen.tiles import Block, Target, Worker
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.products.splitting import Split
from aot.lower.contract.simt.numbercopies import Place, Side, Source
from aot.lower.contract.simt.tileform import Form
from aot.lower.gpumodule import imageneeds
from aot.lower.launches import branches


@dataclass(frozen=True, eq=False)
class Job:
    """A problem, and how its results may be stored."""

    problem: Problem
    width: int
    """Neighbouring results that are stored at a time if ``wide``."""
    wide: ir.Value | bool
    """Whether all results are whole vectors; a value of host code where that is known at the call only."""
    vectors: ir.Value | bool = False
    """Whether factors that have their outer loop's neighbours in memory can be copied in vectors; a value likewise."""


Starts = tuple[Word, Word]
"""Addresses in shared memory of both factors' tiles."""
Ahead = Callable[[], list[ir.Value]]
"""Waits for the next stage, and gives what its first step multiplies."""


class Units(Protocol):
    """The multiplications of one thread."""

    @property
    def zeros(self) -> Sequence[ir.Value]:
        """Its sums, before anything is added."""

    @property
    def heights(self) -> Sequence[int]:
        """Rows of the tile that come to shared memory together, at the end."""

    def first(self, starts: Starts) -> list[ir.Value]:
        """What a stage's first step multiplies, whose factors begin at these addresses."""

    def multiplied(
        self, starts: Starts, sums: Sequence[ir.Value], first: Sequence[ir.Value], ahead: Ahead
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with the products of a stage, and what ``ahead`` gave: it is called before the last step's."""

    def store(self, slab: Shared, part: int, sums: Sequence[ir.Value]) -> None:
        """Put the thread's sums of some rows into shared memory, row by row."""


class Code:
    """The code of one kernel; ``ffmacode`` has another way for much of it."""

    side: type[Side] = Side
    words = 2
    """Places in the ring that the loop carries: where it reads, then where it writes."""

    def __init__(self, job: Job, form: Form, units: Units, block: Block, split: Split | None) -> None:
        self.job, self.form, self.units, self.block, self.split = job, form, units, block, split
        self.begin, self.first, self.behind, self.batch = constant(0), constant(0), block.k, block.batch
        """First of ``k`` in memory; first one and end of those that copies count."""
        if split is not None:
            depth = narrow(split.depth.value)
            self.first, self.batch = narrow(block.batch[0]) * depth, block.batch[1:]
            self.behind = block.k.least(self.first + depth)
        base = instructions.shared_base()
        self.bases = [base + start for start in form.starts]

    @staticmethod
    def more_bytes(loops: int) -> int:
        """For a tile's place, behind the ring; ``loops``: around the product."""
        return (loops + 2) * sharednumbers.WORD

    def emit(self, sources: Sequence[Source]) -> None:
        block, last = self.block, self.form.stages - 1
        self.put_aside(self.bases[0] + self.form.ring, [block.m0, block.n0, *map(narrow, block.batch)])
        corners = ((block.m0, block.m), (block.n0, block.n))
        places = [Place(self.batch, *corner, self.begin, self.behind, block.thread) for corner in corners]
        given = zip(sources, self.form.shapes, places, self.bases, strict=True)
        self.sides = [self.side(*each) for each in given]
        for stage in range(last):
            offset = constant(stage * self.form.stage)
            self._end(offset, self._begin(offset, constant(stage)))
        self._wait(last - 1)
        turns = (self.behind - self.first).tiles(self.form.depth)
        first = self.units.first(self._starts(constant(0)))
        words = (constant(0), constant(last * self.form.stage))[: self.words]
        carried = [*self.units.zeros, *first, *(each.value for each in words)]
        loop = scf.ForOp(constant(0).value, turns.value, constant(1).value, carried)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._turn(Word(loop.induction_variable), list(loop.inner_iter_args)))
        self.drain()
        self.block = self.again()
        self.finish(list(loop.results)[: len(self.units.zeros)])

    def put_aside(self, address: Word, place: Sequence[Word]) -> None:
        """Put the tile's place behind the ring: kept in registers, it would take them from the loop."""
        self.aside = Aside(address, place)

    def again(self) -> Block:
        """The block, whose place is read where it is wanted."""
        m0, n0, *batch = (self.aside.read(number) for number in range(len(self.block.batch) + 2))
        return replace(self.block, m0=m0, n0=n0, batch=tuple(each.index() for each in batch))

    def _begin(self, stage: Word, turn: Word) -> list[list[ir.Value]]:
        """Have the tiles of a turn brought to a stage."""
        moving = [side.begin(stage, self.first + turn * self.form.depth) for side in self.sides]
        if any(side.is_copied for side in self.sides):
            instructions.commit()
        return moving

    def _end(self, stage: Word, moving: Sequence[Sequence[ir.Value]]) -> None:
        for side, values in zip(self.sides, moving, strict=True):
            side.end(stage, values)

    def _wait(self, groups: int) -> None:
        """Until at most so many stages are on their way, for all threads, and all have done with the one before."""
        self.arrived(groups)
        gpu.BarrierOp()

    def arrived(self, groups: int) -> None:
        """The same for this thread's copies."""
        if any(side.is_copied for side in self.sides):
            instructions.wait(groups)

    def _starts(self, stage: Word) -> Starts:
        left, right = (base + stage for base in self.bases)
        return left, right

    def _turn(self, turn: Word, carried: list[ir.Value]) -> list[ir.Value]:
        """One tile of depth: the stage that is filled was last read in the turn before, whose end is a barrier.

        The last step is multiplied behind that barrier, while the next stage's first step is read.
        """
        last, count = self.form.stages - 1, len(self.units.zeros)
        reads, *writes = (Word(each) for each in carried[-self.words :])
        following, target = self._next(reads), self.writes(reads, writes)
        moving = self._begin(target, turn + last)

        def ahead() -> list[ir.Value]:
            self._end(target, moving)
            self._wait(last - 1)
            return self.units.first(self._starts(following))

        sums, first = self.units.multiplied(self._starts(reads), carried[:count], carried[count : -self.words], ahead)
        return [*sums, *first, following.value, *(self._next(each).value for each in writes)]

    def _next(self, stage: Word) -> Word:
        behind = stage + self.form.stage
        return behind.where(behind.below(self.form.ring), 0)

    def writes(self, reads: Word, writes: Sequence[Word]) -> Word:
        """Where a turn writes, given what the loop carries."""
        del reads
        return writes[0]

    def drain(self) -> None:
        """After the loop: nothing is on its way to the ring, and nobody reads it."""
        self._wait(0)

    def worker(self) -> Worker:
        """The thread behind the loop."""
        # Read again: kept from before the loop, what is made from it would take registers.
        return Worker(registers.here(self.block.thread), self.form.threads)

    def finish(self, sums: Sequence[ir.Value]) -> None:
        heights = self.units.heights
        row = self.form.slab_row
        assert max(heights) * row * self.form.size <= self.form.ring
        slab = Shared(self.job.problem.accumulator, [max(heights), row], 0)
        top = self.block.m0
        for part, height in enumerate(heights):
            if part:
                gpu.BarrierOp()
            self.units.store(slab, part, sums)
            gpu.BarrierOp()
            self.give(slab, (top, self.block.n0), height)
            top = top + height

    def give(self, slab: Shared, corner: tiles.Corner, rows: int) -> None:
        """Have rows of the tile, which lie in shared memory, stored."""
        worker, done = self.worker(), self.job.problem.epilogue
        batch = self.block.batch[1:] if self.split else self.block.batch

        def give(target: Target) -> None:
            tiles.give(self.block, slab, corner, (rows, self.form.columns), worker, target)

        def give_results() -> None:
            wide, single = (Target(done, batch, width) for width in (self.job.width, 1))
            branches.either(self.job.wide, lambda: give(wide), lambda: give(single))

        if self.split is None:
            give_results()
            return
        part = Target(self.split.epilogue, self.block.batch, self.split.width)
        several = constant(1).below(narrow(self.split.parts.value))
        branches.either(several, lambda: give(part), give_results)


def launch(
    job: Job,
    form: Form,
    units: Callable[[Word], Units],
    need: str | None,
    split: Split | None,
    code: type[Code] = Code,
) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split.

    ``units``: for the number of a thread. ``need``: the architecture of images that hold the kernel, and have
    asynchronous copies; None: it does without these.
    """
    problem = job.problem
    sources = [
        Source.of(factor, shape, asynchronous=need is not None, vectors=job.vectors)
        for factor, shape in zip(problem.factors, form.shapes, strict=True)
    ]
    inner = problem if split is None else replace(problem, batch=(split.parts, *problem.batch))
    shared = form.ring + code.more_bytes(len(inner.batch))
    with tiles.launch(inner, form.extents, form.threads, shared, form.told(copied=need is not None)) as block:
        block.launch.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), form.blocks)
        if need:
            imageneeds.mark(block.launch, need)
        code(job, form, units(block.thread), block, split).emit(sources)
