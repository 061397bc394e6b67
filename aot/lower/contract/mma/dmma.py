"""Products of f64 on tensor cores, by ``mma.sync``.

In: a problem with sums in f64. Out: a ``gpu.launch`` (``registertile``).

A warp computes blocks of 16 x 8 sums, spread over the tile so that those of all warps together are whole rows of it.
A lane's two rows of a block are neighbours in the tile, so that it reads numbers of the left factor in pairs. From 9.0
on an instruction multiplies 16 rows by 8 columns, several times 4 steps deep; those of 8 rows, 4 deep, which 8.0 has,
too, run at half that pace there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from mlir import ir

from aot.lower.contract.codegen import instructions, sharednumbers
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.splitting import Split
from aot.lower.contract.simt import registertile
from aot.lower.contract.simt.registertile import Ahead, Form, Job, Starts
from aot.lower.fast.regions import bodies
from aot.targets.arch import WARP

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
    ahead: int
    """Blocks of the right factor that a warp reads before it multiplies."""

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


LARGE, SMALL = Tile(2, 2, 8, blocks=2, ahead=4), Tile(2, 2, 4, blocks=2, ahead=4)
"""Of two blocks on a multiprocessor one multiplies while the other reads its numbers, or waits at a barrier. Numbers of
all eight blocks beside each other at a time would spill where extents are not known."""
SINGLES = Tile(4, 2, 8, blocks=1, ahead=8)
"""For factors that are copied number by number: a larger tile has fewer of these for each product."""
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
        return self._begun(starts, 0)

    def multiplied(
        self, starts: Starts, sums: Sequence[ir.Value], first: Sequence[ir.Value], ahead: Ahead
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with the products of a stage: numbers are read while those before are multiplied."""
        done, begun = list(sums), list(first)
        for step in range(0, self.form.depth, self.instruction.depth):
            following = step + self.instruction.depth
            more = ahead if following == self.form.depth else partial(self._begun, starts, following)
            begun = self._multiply(done, begun, partial(self._right, starts, step), more)
        return done, begun

    def _begun(self, starts: Starts, step: int) -> list[ir.Value]:
        """What a step begins with: all of the left factor, and the first blocks of the right one."""
        left = [self._left(starts, step, block) for block in range(_ROWS)]
        right = [self._right(starts, step, block) for block in range(self.tile.ahead)]
        return [number for block in (*left, *right) for number in block]

    def _multiply(
        self, sums: list[ir.Value], begun: Sequence[ir.Value], read: Callable[[int], list[ir.Value]], ahead: Ahead
    ) -> list[ir.Value]:
        """Add a step's products to the sums, and give what the next step begins with: the last blocks hide the wait."""
        deep = self.instruction.depth // _LANES
        blocks = [list(begun[first : first + deep]) for first in range(0, len(begun), deep)]
        left = [[bodies.unpack(pair) for pair in pairs] for pairs in blocks[:_ROWS]]
        right, following = blocks[_ROWS:], list[ir.Value]()
        for row, column in self._places():
            wanted = column + self.tile.ahead
            if row == 0 and wanted < self.tile.columns:
                right.append(read(wanted))
            elif row == 0 and wanted == self.tile.columns:
                following = ahead()
            first = _SUMS * (row * self.tile.columns + column)
            mine = slice(first, first + _SUMS)
            sums[mine] = self._block(left[row], right[column], sums[mine])
        return following

    def _places(self) -> Iterator[tuple[int, int]]:
        """Rows and columns of blocks in the order of their products: as columns' numbers come, or row after row."""
        rows, columns = range(_ROWS), range(self.tile.columns)
        if self.tile.ahead == self.tile.columns:
            return product(rows, columns)
        return ((row, column) for column, row in product(columns, rows))

    def _left(self, starts: Starts, step: int, block: int) -> list[ir.Value]:
        """Numbers of a block's rows: a pair for every 4 steps."""
        far, pair = block * self.tile.down * _HIGH, ir.VectorType.get([2], _number())
        return self._loaded(starts, 0, self.row + self.number * 2, far, step, pair)

    def _right(self, starts: Starts, step: int, block: int) -> list[ir.Value]:
        """Numbers of a block's columns: one for every 4 steps."""
        return self._loaded(starts, 1, self.column + self.number, block * self.tile.across * _WIDE, step, _number())

    def _loaded(self, starts: Starts, side: int, place: Word, far: int, step: int, kind: ir.Type) -> list[ir.Value]:
        """What lies so far from a lane's place in the rows of an instruction's steps: constants are added last."""
        row = self.form.shapes[side].row_bytes
        mine = starts[side] + self.step * row + place * _SIZE
        size = 2 * _SIZE if isinstance(kind, ir.VectorType) else _SIZE
        steps = range(step, step + self.instruction.depth, _LANES)
        return [sharednumbers.read(mine + (more * row + far * _SIZE), kind, size) for more in steps]

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
