"""Tiles of the kernels in ``wgmma``, and what follows from their extents.

In: extents of the result that a block computes, stages of its ring, blocks that work together. Out: threads, bytes of
shared memory, numbers of tiles of a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.lower.contract.hopper import ATOM, SWIZZLE_ROW, WARPGROUP
from aot.lower.contract.problem import Problem
from aot.lower.contract.words import Word

BELOW, BESIDE, ALONG = "below", "beside", "along"
"""How the blocks of a cluster share work: with tiles below each other they share the right factor, with tiles beside
each other the left one; along the summed loop they share a tile, of which each sums up a part."""
CHUNK = 64 * 128
"""Bytes of 64 rows of 128 bytes, in which a warpgroup's sums go to shared memory before they are stored."""
_MOST_SHARED = 227 * 1024


def has_room(rows: int, columns: int, stages: int) -> bool:
    """Whether shared memory has room for a tile with so many stages, whose sums go through it."""
    stage, sums = (rows + columns) * 128, rows // 64 * (rows // 64) * CHUNK
    return stages * (stage + 16) + sums + ATOM <= _MOST_SHARED


@dataclass(frozen=True)
class Tile:
    """One way to cut a product for blocks."""

    rows: int
    columns: int
    stages: int
    groups: int
    """Consumer warpgroups; each has a part of the rows."""
    cluster: int = 1
    shared: str = BELOW
    blocks: int = 1
    """On one multiprocessor at a time."""
    chunks: int = 2
    """Of each warpgroup's sums that are on their way at a time."""
    few: bool = False
    """There may be fewer rows than the tile has: only those are copied, in multiples of 8."""

    def __post_init__(self) -> None:
        assert self.rows % (64 * self.groups) == 0
        assert (self.shared_bytes + 1024) * self.blocks <= _MOST_SHARED + 1024
        assert not self.splits or self.rows == 64 * self.groups

    @property
    def splits(self) -> int:
        """Parts of the summed loop; 0: the loop is whole."""
        return self.cluster if self.shared == ALONG else 0

    def sharing(self, how: str) -> int:
        """Blocks that share a factor in this way."""
        return self.cluster if self.shared == how else 1

    @property
    def arrivals(self) -> int:
        """Warpgroups that read a stage: those of all blocks that it is filled for."""
        return self.groups * (1 if self.splits else self.cluster)

    @property
    def threads(self) -> int:
        return WARPGROUP * (1 + self.groups)

    @property
    def left_bytes(self) -> int:
        return self.rows * SWIZZLE_ROW

    @property
    def stage_bytes(self) -> int:
        return self.left_bytes + self.columns * SWIZZLE_ROW

    @property
    def staging_bytes(self) -> int:
        return 0 if self.splits else self.groups * self.chunks * CHUNK

    @property
    def shared_bytes(self) -> int:
        """With room to begin at a multiple of what the swizzle repeats after."""
        return self.stages * self.stage_bytes + self.staging_bytes + 16 * self.stages + ATOM

    @property
    def trades_registers(self) -> bool:
        """Whether the producer gives registers to the consumers: few sums do not need them."""
        return self.groups > 1 and self.columns >= 128

    def grid(self, job: Problem) -> tuple[Word, Word]:
        """Tiles, or clusters of them, below and beside each other; in host code."""
        below, beside = self.sharing(BELOW), self.sharing(BESIDE)
        return Word(job.m.value).tiles(self.rows * below), Word(job.n.value).tiles(self.columns * beside)

    def sizes(self, depth: int) -> Mapping[str, int]:
        """For reports; ``depth``: steps of the summed loop that a stage holds."""
        sizes = {"m": self.rows, "n": self.columns, "k": depth, "stages": self.stages, "cluster": self.cluster}
        return {**sizes, "split": self.splits} if self.splits else sizes
