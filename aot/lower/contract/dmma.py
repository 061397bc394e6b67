"""Products of f64 on tensor cores, by ``mma.sync``.

In: a problem with sums in f64. Out: a ``gpu.launch`` (``registertile``).

A warp computes 4 x 8 blocks of 8 x 8 sums, spread over the tile so that the blocks of all warps together are whole rows
of it. An instruction multiplies 8 rows by 8 columns, 4 steps deep: a lane has a number of either factor, and two sums.

"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from aot.lower.contract import epilogue, instructions, registertile
from aot.lower.contract.registertile import Form, Job
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split
from aot.lower.contract.words import Word
from aot.lower.fast import bodies

_SIZE = 8
"""Bytes of a number; rows and columns of an instruction's sums."""
_DEPTH = 4
"""Of an instruction."""
_DOWN, _ACROSS = 4, 2
"""Warps."""
_ROWS, _COLUMNS = 4, 8
"""Blocks of a warp."""
FORM = Form(
    "dmma",
    rows=_SIZE * _DOWN * _ROWS,
    columns=_SIZE * _ACROSS * _COLUMNS,
    depth=16,
    stages=3,
    threads=32 * _DOWN * _ACROSS,
    blocks=1,
    size=_SIZE,
    # Of 4 steps, 4 neighbours each lie in different banks: what half a warp reads at once.
    pad=32,
)
LEAST_SHARED = 128 * 1024
"""Bytes of shared memory that GPUs have whose tensor cores are faster in f64; those for graphics have less."""


def launch(job: Job, need: str, split: Split | None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split."""
    registertile.launch(job, FORM, _Units, need, split)


class _Units:
    """The multiplications of one thread."""

    def __init__(self, thread: Word) -> None:
        lane, warp = thread % 32, thread // 32
        self.step, self.number, self.pair = lane % 4, lane // 4, lane % 4 * 2
        self.starts = (warp // _ACROSS * _SIZE, warp % _ACROSS * _SIZE)
        """First row and column of the warp."""
        self.zeros = [epilogue.zero(ir.F64Type.get())] * (2 * _ROWS * _COLUMNS)
        self.heights = [_SIZE * _DOWN] * _ROWS

    def multiplied(self, starts: tuple[Word, Word], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums with the products of a stage: numbers of a step are read while those before are multiplied."""
        mine = [
            start + self.step * shape.row_bytes + (first + self.number) * _SIZE
            for start, shape, first in zip(starts, FORM.shapes, self.starts, strict=True)
        ]
        done, factors = list(sums), self._factors(mine, 0)
        for step in range(_DEPTH, FORM.depth + 1, _DEPTH):
            ahead = self._factors(mine, step) if step < FORM.depth else factors
            done, factors = _products(done, factors), ahead
        return done

    def _factors(self, mine: Sequence[Word], step: int) -> list[list[ir.Value]]:
        """A number of each block of both factors."""
        return [
            [_number(start + (step * shape.row_bytes + block * apart * _SIZE * _SIZE)) for block in range(blocks)]
            for start, shape, blocks, apart in zip(mine, FORM.shapes, (_ROWS, _COLUMNS), (_DOWN, _ACROSS), strict=True)
        ]

    def store(self, slab: Shared, part: int, sums: Sequence[ir.Value]) -> None:
        """Put a row of blocks into shared memory."""
        for block in range(_COLUMNS):
            first = 2 * (part * _COLUMNS + block)
            column = self.starts[1] + self.pair + block * _ACROSS * _SIZE
            slab.store(bodies.pack(sums[first : first + 2]), [self.starts[0] + self.number], column)


def _number(address: Word) -> ir.Value:
    return llvm.LoadOp(ir.F64Type.get(), instructions.pointer(address, 3), alignment=_SIZE).result


def _products(sums: Sequence[ir.Value], factors: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """The sums with those of one step of instructions."""
    left, right = factors
    done: list[ir.Value] = []
    for row in left:
        for column in right:
            first = len(done)
            done += instructions.multiply_doubles(row, column, sums[first : first + 2])
    return done
