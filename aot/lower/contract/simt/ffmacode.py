"""The code of kernels for ordinary units, in few registers: their loop has 64 sums of a thread, and few to spare.

In: what ``registertile`` gives any kernel. Out: its code. What the loop does not change is computed in it, from what
the launch was given, or put into shared memory until it has ended. One kernel copies vectors and single elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import gpu, scf

from aot.lower.contract.codegen import instructions, registers, tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block, Worker
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.splitting import Split
from aot.lower.contract.simt import registertile
from aot.lower.contract.simt.numbercopies import Side
from aot.lower.contract.simt.registertile import Job, Units
from aot.lower.contract.simt.tileform import Form
from aot.lower.fast.regions.places import Extent
from aot.lower.launches import branches

_SERVED = 8
"""Lanes whose vectors lie in all banks of shared memory together."""


class _Side(Side):
    """One factor; ``k`` counts from the block's first one."""

    def find(self, start: Word) -> None:
        """Where copies begin; the way to the next one is computed again for each tile."""
        self.deep = (self.place.behind - self.k).where(self.k.below(self.place.behind), 0)
        """Elements along ``k``, from the thread's first one on."""
        # In one piece: LLVM would keep what does not depend on the block beside the rest.
        self.origin = registers.here(self.located(start))

    def bytes(self, number: Word, stride: Extent) -> Word:
        """So many steps of a loop, in 64 bits."""
        if stride.static is not None:
            return super().bytes(number, stride)
        # Here, for what a loop does not change would take registers in it.
        return number.wide() * registers.here(Word(stride.value).wide()) * self.shape.bytes

    def copy(self, stage: Word, k0: Word) -> None:
        """Nothing outside of the factor is read."""
        source, target = self.origin + self.bytes(k0, self.factor.inner), self.target + stage
        aligned = self.source.aligned
        if not self.factor.turned:
            self._copy_rows(target, source, k0)
        elif aligned is None:
            self._copy_whole(target, source, k0)
        else:
            branches.either(
                constant(0).below(aligned),
                lambda: self._copy_whole(target, source, k0),
                lambda: self._copy_single(target, source, k0),
            )

    def _copy_rows(self, target: Word, source: Word, k0: Word) -> None:
        """Elements of rows along ``k``."""
        stride, size = self.between(), self.shape.bytes
        # All comparisons depend on ``k``: none is made before the loop, to be kept.
        left = self.left.where(k0.below(self.deep), 0)
        for number in range(self.count):
            there = constant(size).where(constant(number * self.step).below(left), 0)
            instructions.copy(target + number * self.target_step, source, there, size)
            source = source + stride

    def _copy_whole(self, target: Word, source: Word, k0: Word) -> None:
        """A thread's neighbours in each of its rows along the outer loop, at once."""
        stride, size, width = self.between(), self.shape.bytes, self.source.width
        for number in range(self.count):
            left = self._left(k0, number)
            instructions.copy(target + number * self.target_step, source, left.least(width) * size, width * size)
            source = source + stride

    def _copy_single(self, target: Word, source: Word, k0: Word) -> None:
        """The same one by one; lanes that are served together take each another bank."""
        stride, size, width = self.between(), self.shape.bytes, self.source.width
        thread = registers.thread_again()
        numbers = [(thread // _SERVED + turn) % width for turn in range(width)]
        for number in range(self.count):
            left, place = self._left(k0, number), target + number * self.target_step
            for each in numbers:
                there = constant(size).where(each.below(left), 0)
                instructions.copy(place + each * size, source + (each * size).wide(), there, size)
            source = source + stride

    def _left(self, k0: Word, number: int) -> Word:
        """Elements that are there along the outer loop, for one of a thread's rows."""
        return self.left.where((k0 + number * self.step).below(self.deep), 0)


class Code(registertile.Code):
    """The code of one kernel."""

    side = _Side
    words = 1

    def __init__(self, job: Job, form: Form, units: Units, block: Block, split: Split | None) -> None:
        super().__init__(job, form, units, block, split)
        if split is not None:
            self.begin, self.first = self.first, constant(0)
            self.behind = (block.k - self.begin).least(narrow(split.depth.value))

    @staticmethod
    def more_bytes(loops: int) -> int:
        """For a tile's place, in whole vectors."""
        return 4 * _kept(loops)

    def put_aside(self, address: Word, place: Sequence[Word]) -> None:
        """Put the tile's place behind the ring, where it is read once."""
        del address
        kept = Shared(instructions.word(), [_kept(len(self.block.batch))], self.form.ring)
        for number, word in enumerate(place):
            kept.store(word.value, [], constant(number))
        self.kept = kept

    def again(self) -> Block:
        """The block with its place as it was put away; there was a barrier since."""
        words = [Word(self.kept.load([], constant(number), 1)) for number in range(2 + len(self.block.batch))]
        batch = tuple(each.index() for each in words[2:])
        return replace(self.block, m0=words[0], n0=words[1], batch=batch)

    def writes(self, reads: Word, writes: Sequence[Word]) -> Word:
        """The stage before the one that is read."""
        del writes
        last = constant(self.form.ring - self.form.stage)
        return last.where(reads.equals(0), reads - self.form.stage)

    def drain(self) -> None:
        """Nothing is on its way to the ring; ``finish`` begins with a barrier."""
        self.arrived(0)

    def worker(self) -> Worker:
        """The thread behind the loop."""
        return Worker(registers.thread_again(), self.form.threads)

    def finish(self, sums: Sequence[ir.Value]) -> None:
        """Part after part, in one loop: what gives sums to the epilogue is the same code for all."""
        heights = self.units.heights
        row, height = self.form.slab_row, heights[0]
        assert set(heights) == {height}
        assert height * row * self.form.size <= self.form.ring
        slab = Shared(self.job.problem.accumulator, [height, row], 0)
        loop = scf.ForOp(constant(0).value, constant(len(heights)).value, constant(1).value)
        tiles.unrolled(loop.operation, 1)
        with ir.InsertionPoint(loop.body):
            part = Word(loop.induction_variable)
            # The part before has been read.
            gpu.BarrierOp()
            self._store(slab, part, range(len(heights)), sums)
            gpu.BarrierOp()
            self.give(slab, (self.block.m0 + part * height, self.block.n0), height)
            scf.YieldOp([])

    def _store(self, slab: Shared, part: Word, parts: Sequence[int], sums: Sequence[ir.Value]) -> None:
        """One of some parts of the sums into shared memory."""
        first, *others = parts
        branches.either(
            part.equals(first) if others else True,
            lambda: self.units.store(slab, first, sums),
            lambda: self._store(slab, part, others, sums),
        )


def _kept(loops: int) -> int:
    """Words for a tile's place, among so many loops around the product, in whole vectors."""
    return -(-(2 + loops) // 4) * 4
