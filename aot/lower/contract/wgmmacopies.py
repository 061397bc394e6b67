"""What the producer of a ``wgmma`` kernel does: tiles of both factors come to shared memory, stage by stage.

In: the kernel, and a tile's place. Out: code of one thread, which waits for stages to be empty and begins copies (TMA).

Of a convolution's left factor, whose rows are windows over images, a copy walks from window to window and reads one
place of the filter in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import scf

from aot.lower.contract import hopper
from aot.lower.contract.hopper import SWIZZLE_ROW
from aot.lower.contract.problem import Factor
from aot.lower.contract.wgmmatile import BELOW, BESIDE
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast.places import Extent

if TYPE_CHECKING:
    from aot.lower.contract.wgmma import Corner, Kernel

Copy = Callable[[Word, Word, Word], None]
"""Begins to copy a factor's part: to an address, from a step of the summed loop on, for a barrier."""


class Copies:
    """The producer's code."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.job, self.shape = kernel, kernel.job, kernel.tile

    def tile(self, corner: Corner, used: Word) -> None:
        """All stages of a tile; ``used``: stages before them."""
        copy_left = self._walk(corner) if self.job.window else self._plain(corner)
        loop = scf.ForOp(constant(0).value, self.kernel.steps.value, constant(1).value)
        with ir.InsertionPoint(loop.body):
            step = Word(loop.induction_variable)
            number = used + step
            slot = number % self.shape.stages
            # The phase before the first one counts as ended: an empty ring needs no arrivals.
            hopper.wait(self.kernel.empty(slot), (number // self.shape.stages & 1) ^ 1)
            hopper.expect(self.kernel.full(slot), self._bytes())
            stage = self.kernel.ring + slot * self.shape.stage_bytes
            k = (self.kernel.start + step) * self.kernel.depth
            copy_left(stage, k, self.kernel.full(slot))
            at = (corner.n0, k, corner.batch)
            self._copy(self.job.right, 1, stage + self.shape.left_bytes, at, self.kernel.full(slot))
            scf.YieldOp([])

    def _plain(self, corner: Corner) -> Copy:
        """Of the left factor, for a tile."""
        return lambda stage, k, barrier: self._copy(self.job.left, 0, stage, (corner.m0, k, corner.batch), barrier)

    def _walk(self, corner: Corner) -> Copy:
        """The same for a convolution: from the tile's first window on."""
        window = self.job.window
        assert window is not None
        (*filters, channels), places = window.k, window.places
        first = {axis: number * by for number, (axis, by) in zip(_split(corner.m0, window.m), places[0], strict=True)}

        def copy(stage: Word, k: Word, barrier: Word) -> None:
            size = narrow(channels[0].value)
            taken = dict.fromkeys(first, constant(0))
            for number, (axis, by) in zip(_split(k // size, filters), places[1], strict=False):
                taken[axis] = number * by
            inner = sorted(first, reverse=True)
            at = [k % size, *(first[axis] for axis in inner)]
            beside = [taken[axis] for axis in inner[:-1]]
            hopper.load_tile(stage, self.kernel.sides[0].map, at, barrier, beside=beside)

        return copy

    def _bytes(self) -> Word:
        """What a stage's copies bring to this block."""
        if self.shape.few and not self.job.left.turned:
            return self.kernel.box * SWIZZLE_ROW + (self.shape.stage_bytes - self.shape.left_bytes)
        return constant(self.shape.stage_bytes)

    def _copy(
        self, factor: Factor, side: int, target: Word, at: tuple[Word, Word, Sequence[Word]], barrier: Word
    ) -> None:
        """A factor's part of a stage: all of it, or this block's share for all blocks of the cluster."""
        outer, k, batch = at
        source = self.kernel.sides[side]
        parts = self.shape.sharing(BELOW if side else BESIDE)
        extent = (self.shape.columns if side else self.shape.rows) // parts
        if parts > 1:
            outer, target = outer + self.kernel.rank * extent, target + self.kernel.rank * (extent * SWIZZLE_ROW)
        mask = (1 << parts) - 1 if parts > 1 else 0
        for start in range(0, extent, source.rows):
            place = outer + start
            coordinates = source.at(place, k, batch) if factor.turned else source.at(k, place, batch)
            hopper.load_tile(target + start * SWIZZLE_ROW, source.map, coordinates, barrier, mask)


def _split(number: Word, loops: Sequence[tuple[Extent, Extent]]) -> list[Word]:
    """Numbers of loops, for their common number."""
    found: list[Word] = []
    for extent, _ in reversed(loops[1:]):
        size = narrow(extent.value)
        found.insert(0, number % size)
        number = number // size
    return [number, *found] if loops else []
