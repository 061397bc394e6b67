"""Products on tensor cores by ``mma.sync``: sm_80 and everything later.

In: a problem whose factors are aligned for copies of 16 bytes, and a Tile. Out: a ``gpu.launch``.

A ring of stages in shared memory holds tiles of both factors; asynchronous copies fill the one that was read last,
with zeros beyond the factors' ends. Each warp keeps its sums in registers, and the fragments of one step of ``k`` while
those of the next are on their way. At the end the ring takes the sums, row by row, for the epilogue. A kernel that
spilled is made again with the place of its tile in shared memory, too, where it lies until the epilogue wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import gpu, scf

from aot.lower.contract.codegen import instructions, tiles
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.operand import Operand, Part, Side, right_tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.sharednumbers import WORD, Aside
from aot.lower.contract.codegen.tiles import Block, Target, Told, Worker
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.products.splitting import Split
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.places import Extent
from aot.lower.gpumodule import imageneeds
from aot.lower.launches import branches, tiling
from aot.targets.arch import WARP

_PAD = 8
"""Sums by which a row in shared memory is longer, so that eight rows meet different banks."""
_SUM_BYTES = 4
_CORNER_BYTES = 2 * WORD
"""Of shared memory behind the ring, for the place of the tile."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work: its tile, the depth in bytes, a warp's part of it, stages of the ring."""

    rows: int
    columns: int
    depth_bytes: int
    warp_rows: int
    warp_columns: int
    stages: int

    @property
    def warps(self) -> tuple[int, int]:
        """Down and across."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    @property
    def threads(self) -> int:
        return WARP * self.warps[0] * self.warps[1]

    @property
    def stage_bytes(self) -> int:
        return (self.rows + self.columns) * self.depth_bytes

    @property
    def slab_bytes(self) -> int:
        """Sums of one warp."""
        return self.warp_rows * (self.warp_columns + _PAD) * _SUM_BYTES

    @property
    def shared_bytes(self) -> int:
        return max(self.stages * self.stage_bytes, self.slab_bytes * self.threads // WARP)

    def told(self, kind: Kind) -> Told:
        """For reports."""
        sizes = {"rows": self.rows, "columns": self.columns, "depth": self.depth_bytes // kind.bytes}
        return Told("mma", {**sizes, "stages": self.stages, "threads": self.threads}, (kind.told,))


@dataclass(frozen=True, eq=False)
class Job:
    """A problem with its factors ready to be copied."""

    problem: Problem
    kind: Kind
    left: Operand
    right: Operand
    width: int
    """Results that are stored at a time if ``wide``."""
    wide: ir.Value | bool
    """Whether all results are whole vectors; a value of host code where that is known at the call only."""


def launch(job: Job, tile: Tile, need: str, split: Split | None = None) -> None:
    """Emit the kernel at the insertion point; ``need``: the architecture of images that hold it."""
    told, shape = tile.told(job.kind), (tile.rows, tile.columns)
    if split is not None:
        job = _with_parts(job, split)
    spilled = any(each.names(told.name, told.sizes, told.remarks) for each in job.problem.spilled)
    shared = tile.shared_bytes + (_CORNER_BYTES if spilled else 0)
    with tiles.launch(job.problem, shape, tile.threads, shared, told) as block:
        if need:
            imageneeds.mark(block.launch, need)
        # How many blocks run beside each other is shared memory's word.
        tiling.give_registers(block.launch)
        _Code(job, tile, block, split, spilled=spilled).emit()


def _with_parts(job: Job, split: Split) -> Job:
    """Parts of the sum as the outermost loop around the product."""

    def outer(operand: Operand) -> Operand:
        step = split.depth * Word(operand.pitch.value) if operand.turned else split.depth
        return replace(operand, batch=(Extent(step.value, None), *operand.batch))

    problem = replace(job.problem, batch=(split.parts, *job.problem.batch))
    return replace(job, problem=problem, left=outer(job.left), right=outer(job.right))


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Job, tile: Tile, block: Block, split: Split | None, *, spilled: bool) -> None:
        if split is not None:
            share = narrow(split.depth.value)
            block = replace(block, k=(block.k - narrow(block.batch[0]) * share).least(share))
        self.job, self.tile, self.block, self.kind, self.split = job, tile, block, job.kind, split
        self.lane, self.warp = block.thread % WARP, block.thread // WARP
        down = tile.warps[0]
        self.row0, self.column0 = self.warp % down * tile.warp_rows, self.warp // down * tile.warp_columns
        base = instructions.shared_base()
        depth = tile.depth_bytes // self.kind.bytes
        left = Part(tile.rows, depth, tile.warp_rows, True, 0)
        right = Part(tile.columns, depth, tile.warp_columns, False, tile.rows * tile.depth_bytes)
        self.sides = (
            Side(job.left, left, self.kind, block, base, tile.threads, self.row0),
            Side(job.right, right, self.kind, block, base, tile.threads, self.column0),
        )
        self.depth, self.steps = depth, depth // self.kind.depth
        self.down, self.across = tile.warp_rows // 16, tile.warp_columns // 8
        self.corner = Aside(base + tile.shared_bytes, [block.m0, block.n0]) if spilled else None

    def emit(self) -> None:
        last = self.tile.stages - 1
        for stage in range(last):
            self._copy(constant(stage * self.tile.stage_bytes), constant(stage))
        self._wait()
        totals = [epilogue.zero(ir.Type.parse(self.kind.sums))] * (4 * self.down * self.across)
        first = self._fragments(constant(0), constant(0))
        reads, writes = constant(0), constant(last * self.tile.stage_bytes)
        turns = self.block.k.tiles(self.depth)
        begin = [*totals, *first, reads.value, writes.value]
        loop = scf.ForOp(constant(0).value, turns.value, constant(1).value, begin)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._turn(Word(loop.induction_variable), list(loop.inner_iter_args)))
        instructions.wait(0)
        gpu.BarrierOp()
        self._finish(list(loop.results)[: len(totals)])

    def _copy(self, stage: Word, turn: Word) -> None:
        for side in self.sides:
            side.copy(stage, turn * self.depth)
        instructions.commit()

    def _wait(self) -> None:
        """Until the next stage is there for all threads, and all have done with the one before."""
        instructions.wait(self.tile.stages - 2)
        gpu.BarrierOp()

    def _fragments(self, stage: Word, step: Word) -> list[ir.Value]:
        return [register for side in self.sides for tile in side.fragments(stage, step) for register in tile]

    def _turn(self, turn: Word, carried: list[ir.Value]) -> list[ir.Value]:
        """One tile of depth: the slot that is filled was last read in the turn before, whose end is a barrier."""
        reads, writes = (Word(each) for each in carried[-2:])
        following = self._next(reads)
        self._copy(writes, turn + (self.tile.stages - 1))
        loop = scf.ForOp(constant(0).value, constant(self.steps).value, constant(1).value, carried[:-2])
        # Unrolled by LLVM: what comes before handles one step instead of all.
        tiles.unrolled(loop.operation, self.steps)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._step(Word(loop.induction_variable), list(loop.inner_iter_args), reads, following))
        return [*loop.results, following.value, self._next(writes).value]

    def _step(self, step: Word, carried: list[ir.Value], reads: Word, following: Word) -> list[ir.Value]:
        """Products of one step, beside which fragments of the next one are read: at the end those of the next tile."""
        count, last = 4 * self.down * self.across, step.equals(self.steps - 1)
        with branches.guard(last):
            self._wait()
        ahead = self._fragments(following.where(last, reads), (step + 1) % self.steps)
        return [*self._multiplied(carried[:count], carried[count:]), *ahead]

    def _next(self, stage: Word) -> Word:
        behind = stage + self.tile.stage_bytes
        return behind.where(behind.below(self.tile.stages * self.tile.stage_bytes), 0)

    def _multiplied(self, totals: Sequence[ir.Value], registers: Sequence[ir.Value]) -> list[ir.Value]:
        """Down one column of tiles and up the next: each fragment is used again at once."""
        groups = [registers[first : first + 4] for first in range(0, len(registers), 4)]
        left, right = groups[: self.down], right_tiles(groups[self.down :])
        done = list(totals)
        for row in range(self.down):
            columns = range(self.across) if row % 2 == 0 else range(self.across - 1, -1, -1)
            for column in columns:
                first = 4 * (row * self.across + column)
                four = slice(first, first + 4)
                done[four] = instructions.multiply(self.kind, left[row], right[column], done[four])
        return done

    def _finish(self, totals: Sequence[ir.Value]) -> None:
        """The warp's sums into its own part of shared memory, and from there to the epilogue."""
        tile, element = self.tile, ir.Type.parse(self.kind.sums)
        shape = [tile.warp_rows, tile.warp_columns + _PAD]
        start = (self.warp * tile.slab_bytes).index()
        pairs, slab = Shared(element, shape, start, lanes=2), Shared(element, shape, start)
        row, column = self.lane // 4, self.lane % 4 * 2
        for first in range(0, len(totals), 2):
            down, across = divmod(first // 4, self.across)
            place = row + (down * 16 + first % 4 * 4)
            pairs.store(bodies.pack(totals[first : first + 2]), [place], column + across * 8)
        gpu.BarrierOp()
        self._give(slab)

    def _give(self, slab: Shared) -> None:
        """To memory for parts of sums, if there are parts; else to the results."""
        aside = self.corner
        row, column = (aside.read(0), aside.read(1)) if aside else (self.block.m0, self.block.n0)
        corner = (row + self.row0, column + self.column0)
        extents, worker = (self.tile.warp_rows, self.tile.warp_columns), Worker(self.lane, WARP)
        done, job, split = self.job.problem.epilogue, self.job, self.split
        batch = self.block.batch[1:] if split else self.block.batch

        def give(target: Target) -> None:
            tiles.give(self.block, slab, corner, extents, worker, target)

        def give_results() -> None:
            wide, narrow_ = (Target(done, batch, width) for width in (job.width, 1))
            branches.either(job.wide, lambda: give(wide), lambda: give(narrow_))

        if split is None:
            give_results()
        else:
            several = constant(1).below(narrow(split.parts.value))
            part = Target(split.epilogue, self.block.batch, split.width)
            branches.either(several, lambda: give(part), give_results)
