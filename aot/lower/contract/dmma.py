"""Products of f64 on tensor cores, by ``mma.sync``.

In: a problem with sums in f64. Out: a ``gpu.launch`` (``registertile``).

A warp computes blocks of 16 x 8 sums, spread over the tile so that those of all warps together are whole rows of it.
A lane's two rows of a block are neighbours in the tile, so that it reads numbers of the left factor in pairs. From 9.0
on an instruction multiplies 16 rows by 8 columns, several times 4 steps deep; those of 8 rows, 4 deep, which 8.0 has,
too, run at half that pace there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import llvm

from aot.arch import WARP
from aot.lower.contract import epilogue, instructions, registertile
from aot.lower.contract.registertile import Ahead, Form, Job, Starts
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split
from aot.lower.contract.words import Word
from aot.lower.fast import bodies

_SIZE = 8
"""Bytes of a number."""
_HIGH, _WIDE = 16, 8
"""Rows and columns of a block."""
_LANES = 4
"""Steps of which lanes beside each other have one each."""
_ROWS = 2
"""Blocks of a warp below each other."""
_SUMS = 4
"""A lane's, of a block: two columns in two rows."""


@dataclass(frozen=True)
class Tile:
    """What a block computes."""

    down: int
    """Warps."""
    across: int
    columns: int
    """Blocks of a warp beside each other."""
    blocks: int
    """On a multiprocessor."""

    @property
    def form(self) -> Form:
        return Form(
            "dmma",
            rows=_HIGH * self.down * _ROWS,
            columns=_WIDE * self.across * self.columns,
            depth=16,
            stages=3,
            threads=WARP * self.down * self.across,
            blocks=self.blocks,
            size=_SIZE,
            # Of 4 steps, 4 neighbours each lie in different banks: what a half or a quarter of a warp reads at once.
            pad=32,
        )


LARGE, SMALL = Tile(4, 2, 8, blocks=1), Tile(2, 2, 4, blocks=2)
LEAST_SHARED = 128 * 1024
"""Bytes of shared memory that GPUs have whose tensor cores are faster in f64; those for graphics have less."""


@dataclass(frozen=True)
class Instruction:
    """What a GPU multiplies at once."""

    since: tuple[int, int]
    """The first GPUs that have it."""
    depth: int
    tall: bool
    """Whether it has 16 rows, not 8."""


INSTRUCTIONS = (Instruction((9, 0), 16, True), Instruction((8, 0), 4, False))
"""The best one first."""


def launch(job: Job, tile: Tile, instruction: Instruction, need: str, split: Split | None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split."""
    registertile.launch(job, tile.form, partial(_Units, tile, instruction), need, split)


class _Units:
    """The multiplications of one thread."""

    def __init__(self, tile: Tile, instruction: Instruction, thread: Word) -> None:
        self.tile, self.form, self.instruction = tile, tile.form, instruction
        lane, warp = thread % WARP, thread // WARP
        self.step, self.number = lane % _LANES, lane // _LANES
        self.row, self.column = warp // tile.across * _HIGH, warp % tile.across * _WIDE
        """The warp's first ones."""
        self.zeros = [epilogue.zero(ir.F64Type.get())] * (_SUMS * _ROWS * tile.columns)
        self.heights = [_HIGH * tile.down] * _ROWS

    def first(self, starts: Starts) -> list[ir.Value]:
        """A lane's numbers of the first instructions."""
        return self._factors(starts, 0)

    def multiplied(
        self, starts: Starts, sums: Sequence[ir.Value], first: Sequence[ir.Value], ahead: Ahead
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with the products of a stage: numbers are read while those before are multiplied."""
        done, factors = list(sums), list(first)
        for step in range(self.instruction.depth, self.form.depth + 1, self.instruction.depth):
            following = self._factors(starts, step) if step < self.form.depth else ahead()
            done, factors = self._products(done, factors), following
        return done, factors

    def _factors(self, starts: Starts, step: int) -> list[ir.Value]:
        """For each block of the left factor pairs, then for each of the right one numbers: one for every 4 steps."""
        places = (self.row + self.number * 2, self.column + self.number)
        apart = (self.tile.down * _HIGH, self.tile.across * _WIDE)
        kinds = (ir.VectorType.get([2], _number()), _number())
        found = []
        for start, shape, place, blocks, far, kind in zip(
            starts, self.form.shapes, places, (_ROWS, self.tile.columns), apart, kinds, strict=True
        ):
            mine = start + self.step * shape.row_bytes + place * _SIZE
            for block in range(blocks):
                for more in range(step, step + self.instruction.depth, _LANES):
                    found.append(_loaded(mine + (more * shape.row_bytes + block * far * _SIZE), kind))
        return found

    def _products(self, sums: Sequence[ir.Value], factors: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums with those of one step of instructions."""
        deep = self.instruction.depth // _LANES
        blocks = [factors[first : first + deep] for first in range(0, len(factors), deep)]
        done: list[ir.Value] = []
        for pairs in blocks[:_ROWS]:
            left = [bodies.unpack(pair) for pair in pairs]
            for right in blocks[_ROWS:]:
                done += self._block(left, right, sums[len(done) : len(done) + _SUMS])
        return done

    def _block(
        self, left: Sequence[list[ir.Value]], right: Sequence[ir.Value], sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        if self.instruction.tall:
            return instructions.multiply_doubles([each for pair in left for each in pair], right, sums)
        rows = [([pair[row] for pair in left], sums[2 * row : 2 * row + 2]) for row in (0, 1)]
        return [value for row, mine in rows for value in instructions.multiply_doubles(row, right, mine)]

    def store(self, slab: Shared, part: int, sums: Sequence[ir.Value]) -> None:
        """Put a row of blocks into shared memory."""
        for block in range(self.tile.columns):
            for row in (0, 1):
                first = _SUMS * (part * self.tile.columns + block) + 2 * row
                column = self.column + self.step * 2 + block * self.tile.across * _WIDE
                slab.store(bodies.pack(sums[first : first + 2]), [self.row + self.number * 2 + row], column)


def _number() -> ir.Type:
    return ir.F64Type.get()


def _loaded(address: Word, kind: ir.Type) -> ir.Value:
    size = 2 * _SIZE if isinstance(kind, ir.VectorType) else _SIZE
    return llvm.LoadOp(kind, instructions.pointer(address, 3), alignment=size).result
