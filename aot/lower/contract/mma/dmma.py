"""Products of f64 on tensor cores, by ``mma.sync``.

In: a problem with sums in f64. Out: a ``gpu.launch`` (``registertile``).

A warp computes blocks of 16 x 8 sums, spread over the tile so that those of all warps together are whole rows of it. A
lane's two rows of a block are neighbours in the tile: where these are so in memory, too, it reads numbers in pairs.
From 9.0 on an instruction multiplies 16 rows by 8 columns, several times 4 steps deep; those of 8 rows, 4 deep, which
8.0 has, too, run at half that pace there. All numbers of the next instructions are read while those before are
multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from mlir import ir

from aot.lower.contract.codegen import instructions, registers, sharednumbers
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.splitting import Split
from aot.lower.contract.simt import registertile
from aot.lower.contract.simt.registertile import Ahead, Job, Starts
from aot.lower.contract.simt.tileform import Form
from aot.lower.fast.regions import bodies
from aot.targets.arch import WARP

_SIZE = 8
"""Bytes of a number."""
_HIGH, _WIDE = 16, 8
"""Rows and columns of a block."""
_LANES = 4
"""Steps of which lanes beside each other have one each."""
_SUMS = 4
"""A lane's, of a block: two columns in two rows."""
_PAIRS, _FAR = 16, 32
"""Bytes between rows in shared memory, modulo 64 and 128: what lanes read at once lies in different banks. ``_PAIRS``:
where lanes take each other row, ``_FAR``: where neighbours among them do, or each takes a step of ``k``."""


@dataclass(frozen=True)
class Tile:
    """What a block computes."""

    down: int
    """Warps."""
    across: int
    rows: int
    """Blocks of a warp below each other."""
    columns: int
    """And beside each other."""
    blocks: int
    """On a multiprocessor."""
    depth: int = 16
    """Of ``k`` at a time."""
    stages: int = 3
    deep: int = 8
    """Steps of an instruction of 16 rows: its numbers are in registers twice, those of the next one, too."""
    static: bool = False
    """Whether extents that are known make its code shorter."""

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of sums."""
        return _HIGH * self.down * self.rows, _WIDE * self.across * self.columns

    def form(self, along_k: tuple[bool, bool]) -> Form:
        """Its division of a product; ``along_k``: of each factor, whether its rows in shared memory run so."""
        return Form(
            "dmma",
            *self.extents,
            depth=self.depth,
            stages=self.stages,
            threads=WARP * self.down * self.across,
            blocks=self.blocks,
            size=_SIZE,
            pads=(_PAIRS if along_k[0] else _FAR, _FAR),
            along_k=along_k,
        )


LARGE = Tile(4, 2, 2, 8, blocks=1)
MIDDLE = Tile(2, 4, 2, 4, blocks=1, stages=4)
NARROW = Tile(2, 2, 3, 4, blocks=2)
SMALL = Tile(2, 4, 1, 2, blocks=1, depth=32, stages=4, deep=16, static=True)
LEAST_SHARED = 128 * 1024
"""Bytes of shared memory that GPUs have whose tensor cores are faster in f64; those for graphics have less."""


@dataclass(frozen=True)
class Instruction:
    """What a GPU multiplies at once."""

    since: tuple[int, int]
    """The first GPUs that have it."""
    tall: bool
    """Whether it has 16 rows and several times 4 steps, or 8 rows and 4 steps."""


INSTRUCTIONS = (Instruction((9, 0), tall=True), Instruction((8, 0), tall=False))
"""The best one first."""


def launch(job: Job, tile: Tile, instruction: Instruction, need: str, split: Split | None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split."""
    # As they lie in memory: neighbours there are neighbours in shared memory, and can be copied in vectors.
    form = tile.form((not job.problem.left.turned, not job.problem.right.turned))
    code = registertile.Code if tile.static else _Code
    registertile.launch(job, form, partial(_Units, tile, form, tall=instruction.tall), need, split, code)


class _Code(registertile.Code):
    """The code of one kernel for extents that are not known, as it is for those that are.

    Where they are known, copies take fewer instructions, and are begun sooner in a turn. Then ptxas moves the barrier
    from the middle of the products to the first third, and what is read behind it waits for registers of products that
    have only just begun.
    """

    def __init__(self, job: Job, form: Form, units: registertile.Units, block: Block, split: Split | None) -> None:
        problem = job.problem
        given = ((block.m, problem.m), (block.n, problem.n), (block.k, problem.k))
        m, n, k = (word if extent.static is None else registers.here(word) for word, extent in given)
        super().__init__(job, form, units, replace(block, m=m, n=n, k=k), split)


class _Units:
    """The multiplications of one thread."""

    def __init__(self, tile: Tile, form: Form, thread: Word, *, tall: bool) -> None:
        self.tile, self.form, self.tall, self.deep = tile, form, tall, tile.deep if tall else _LANES
        lane, warp = thread % WARP, thread // WARP
        self.step, self.number = lane % _LANES, lane // _LANES
        self.row, self.column = warp // tile.across * _HIGH, warp % tile.across * _WIDE
        """The warp's first ones."""
        firsts = (self.row + self.number * 2, self.column + self.number)
        self.places = [
            self.step * shape.k_bytes + first * shape.outer_bytes
            for first, shape in zip(firsts, form.shapes, strict=True)
        ]
        """Bytes from the beginning of each factor's tile to a lane's first number."""
        self.zeros = [epilogue.zero(_number())] * (_SUMS * tile.rows * tile.columns)
        self.heights = [_HIGH * tile.down] * tile.rows

    def first(self, starts: Starts) -> list[ir.Value]:
        """A lane's numbers of a stage's first instructions."""
        return self._factors(starts, 0, sharednumbers.read_here)

    def multiplied(
        self, starts: Starts, sums: Sequence[ir.Value], first: Sequence[ir.Value], ahead: Ahead
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The sums with the products of a stage: numbers are read while those before are multiplied."""
        done, factors = list(sums), list(first)
        for step in range(self.deep, self.form.depth + 1, self.deep):
            following = ahead() if step == self.form.depth else self._factors(starts, step, sharednumbers.read)
            done, factors = self._products(done, factors), following
        return done, factors

    def _factors(self, starts: Starts, step: int, read: sharednumbers.Read) -> list[ir.Value]:
        """Numbers of the instructions at a step: of each block of the left factor, then of the right one, for every 4
        steps one in turn, of two rows or of a column."""
        rows, columns = (range(0, all_, size) for all_, size in zip(self.form.extents, self._spread(), strict=True))
        steps = range(step, step + self.deep, _LANES)

        def numbers(side: int, outer: int, k: int, count: int = 1) -> ir.Value:
            """What lies so far from a lane's first number: constants are added last."""
            shape, kind = self.form.shapes[side], _number() if count == 1 else ir.VectorType.get([count], _number())
            mine = starts[side] + self.places[side]
            return read(mine + (outer * shape.outer_bytes + k * shape.k_bytes), kind, count * _SIZE)

        if self.form.along_k[0]:
            left = [numbers(0, row + below, k) for row, k, below in product(rows, steps, (0, 1))]
        else:
            left = [each for row, k in product(rows, steps) for each in bodies.unpack(numbers(0, row, k, 2))]
        return [*left, *(numbers(1, column, k) for column, k in product(columns, steps))]

    def _spread(self) -> tuple[int, int]:
        """Rows and columns from one of a warp's blocks to the next."""
        return self.tile.down * _HIGH, self.tile.across * _WIDE

    def _products(self, sums: Sequence[ir.Value], factors: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums with the products of an instruction's steps."""
        deep = self.deep // _LANES
        count = 2 * deep * self.tile.rows
        left = [factors[first : first + 2 * deep] for first in range(0, count, 2 * deep)]
        right = [factors[first : first + deep] for first in range(count, len(factors), deep)]
        return [
            total
            for place, (rows, columns) in enumerate(product(left, right))
            for total in self._block(rows, columns, sums[_SUMS * place : _SUMS * (place + 1)])
        ]

    def _block(self, left: Sequence[ir.Value], right: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        if self.tall:
            return instructions.multiply_doubles(left, right, sums)
        rows = [(left[row::2], sums[2 * row : 2 * row + 2]) for row in (0, 1)]
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
