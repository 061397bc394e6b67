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

from aot.lower.contract.codegen import hopper
from aot.lower.contract.codegen.boxes import DEPTH
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.problem import Factor
from aot.lower.contract.wgmma.wgmmatile import Tile
from aot.lower.fast.regions.places import Extent

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Corner, Kernel

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
        right = self.shape.columns * SWIZZLE_ROW
        if self.job.right.turned:
            right = self.shape.stage_bytes - self.shape.left_bytes
        if self.shape.few and not self.job.left.turned:
            return self.kernel.box * SWIZZLE_ROW + right
        return constant(self.shape.left_bytes + right)

    def _copy(
        self, factor: Factor, side: int, target: Word, at: tuple[Word, Word, Sequence[Word]], barrier: Word
    ) -> None:
        """A factor's part of a stage: all of it, or this block's share for all blocks of the cluster."""
        outer, k, batch = at
        source = self.kernel.sides[side]
        parts = self.shape.below if side else self.shape.beside
        extent = self.shape.columns if side else self.shape.rows
        mask = self._mask(side) if parts > 1 else None
        row, column = self.kernel.rank // self.shape.beside, self.kernel.rank % self.shape.beside
        part = row if side else column
        if parts > 1 and side and factor.turned and steps(self.shape) < DEPTH:
            depth = steps(self.shape)
            k, target = k + part * depth, target + part * (depth * SWIZZLE_ROW)
        elif parts > 1:
            extent //= parts
            outer, target = outer + part * extent, target + part * (extent * SWIZZLE_ROW)
        for start in range(0, extent, source.rows):
            place = outer + start
            coordinates = source.at(place, k, batch) if factor.turned else source.at(k, place, batch)
            hopper.load_tile(target + start * SWIZZLE_ROW, source.map, coordinates, barrier, mask)

    def _mask(self, side: int) -> Word:
        """The blocks of the cluster that share a factor's part with this one."""
        below, beside = self.shape.below, self.shape.beside
        row, column = self.kernel.rank // beside, self.kernel.rank % beside
        if side:
            those = constant(sum(1 << (number * beside) for number in range(below)))
            return those if beside == 1 else those.shifted(column)
        those = constant((1 << beside) - 1)
        return those if below == 1 else those.shifted(row * beside)


def steps(tile: Tile) -> int:
    """Of the summed loop in a box of a turned right factor: blocks share these where columns do not go round."""
    return DEPTH if tile.columns % (DEPTH * tile.below) == 0 else DEPTH // tile.below


def _split(number: Word, loops: Sequence[tuple[Extent, Extent]]) -> list[Word]:
    """Numbers of loops, for their common number."""
    found: list[Word] = []
    for extent, _ in reversed(loops[1:]):
        size = narrow(extent.value)
        found.insert(0, number % size)
        number = number // size
    return [number, *found] if loops else []
