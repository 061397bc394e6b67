"""Tiles of the kernels in ``wgmma``, and what follows from their extents.

In: extents of the result that a block computes, stages of its ring, blocks that work together. Out: threads, bytes of
shared memory, numbers of tiles of a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.lower.contract.codegen.hopper import ATOM, SWIZZLE_ROW, WARPGROUP
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.problem import Problem

CHUNK = 64 * 128
"""Bytes of 64 rows of 128 bytes, in which a warpgroup's sums go to shared memory before they are stored."""
MOST_SHARED = 227 * 1024
_PAIR = 2
"""Blocks of a cluster, of which as many run as of blocks."""
_ACROSS = 64
"""Columns that one copy takes of a right factor whose rows are those of the summed loop."""


def has_room(rows: int, columns: int, stages: int) -> bool:
    """Whether shared memory has room for a tile with so many stages, whose sums go through it."""
    stage, sums = (rows + -(-columns // _ACROSS) * _ACROSS) * SWIZZLE_ROW, rows // 64 * (rows // 64) * CHUNK
    return stages * (stage + 16) + sums + ATOM <= MOST_SHARED


@dataclass(frozen=True)
class Tile:
    """One way to cut a product for blocks."""

    rows: int
    columns: int
    stages: int
    groups: int
    """Consumer warpgroups; each has a part of the rows."""
    below: int = 1
    """Blocks of a cluster with tiles below each other, which share the right factor."""
    beside: int = 1
    """With tiles beside each other, which share the left one."""
    splits: int = 1
    """Blocks of a cluster that share a tile: each sums up a part of the loop. They share nothing else."""
    blocks: int = 1
    """On one multiprocessor at a time."""
    chunks: int = 2
    """Of each warpgroup's sums that are on their way at a time."""
    swapped: bool = False
    """Its rows are columns of the result (``wgmmaswapped``)."""
    few: bool = False
    """There may be fewer rows than the tile has: only those are copied, in multiples of 8."""

    def __post_init__(self) -> None:
        assert self.rows % (64 * self.groups) == 0
        assert (self.shared_bytes + 1024) * self.blocks <= MOST_SHARED + 1024
        assert not self.is_split or (self.rows == 64 * self.groups and self.mates == 1)
        assert self.columns % 8 == 0
        assert self.columns % self.below == 0
        assert self.rows % (8 * self.beside) == 0

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.below * self.beside * self.splits

    @property
    def is_split(self) -> bool:
        return self.splits > 1

    @property
    def mates(self) -> int:
        """Blocks that a block's copies go to, itself among them."""
        return self.below + self.beside - 1

    @property
    def arrivals(self) -> int:
        """Warpgroups that read a stage: those of all blocks that it is filled for."""
        return self.groups * self.mates

    @property
    def threads(self) -> int:
        return WARPGROUP * (1 + self.groups)

    @property
    def left_bytes(self) -> int:
        return self.rows * SWIZZLE_ROW

    @property
    def stage_bytes(self) -> int:
        columns = self.columns if self.swapped else -(-self.columns // _ACROSS) * _ACROSS
        return self.left_bytes + columns * SWIZZLE_ROW

    @property
    def staging_bytes(self) -> int:
        if self.is_split:
            return 0
        if self.swapped:
            return self.rows // 64 * self.chunks * self.columns * SWIZZLE_ROW
        return self.groups * self.chunks * CHUNK

    @property
    def shared_bytes(self) -> int:
        """With room to begin at a multiple of what the swizzle repeats after."""
        return self.stages * self.stage_bytes + self.staging_bytes + 16 * self.stages + ATOM

    @property
    def trades_registers(self) -> bool:
        """Whether the producer gives registers to the consumers: few sums do not need them."""
        return self.groups > 1 and self.columns >= 128

    def places(self, multiprocessors: Word) -> Word:
        """Clusters that run at a time, in host code: large ones leave some multiprocessors of a GPU's parts over."""
        if self.cluster <= _PAIR:
            return multiprocessors * self.blocks // self.cluster
        return multiprocessors * (7 * self.blocks) // (8 * self.cluster)

    def grid(self, job: Problem) -> tuple[Word, Word]:
        """Tiles, or clusters of them, below and beside each other; in host code."""
        return Word(job.m.value).tiles(self.rows * self.below), Word(job.n.value).tiles(self.columns * self.beside)

    def sizes(self, depth: int) -> Mapping[str, int]:
        """For reports; ``depth``: steps of the summed loop that a stage holds."""
        rows, columns = (self.columns, self.rows) if self.swapped else (self.rows, self.columns)
        sizes = {"m": rows, "n": columns, "k": depth, "stages": self.stages, "cluster": self.cluster}
        return {**sizes, "split": self.splits} if self.is_split else sizes
