"""How a kernel was made from tensor level, as reports and the manifest tell it.

In: what a schedule chose. Out: its text.

>>> Tiling("rows", 1, (("threads", 128), ("width", 4)), ("masked",)).text()
'threads 128, width 4, masked'
"""

from __future__ import annotations

from dataclasses import dataclass

CONTRACTIONS, ATTENTION = "contractions", "attention"
"""Classes of work that is in no region, and has kernels with tiles to choose."""


@dataclass(frozen=True)
class Tiling:
    """How a kernel was made from tensor level."""

    kind: str
    """Class of the work: ``pointwise``, ``rows``, ``columns``, ``transposes``, …; ``general`` and ``leftover``."""
    region: int
    """Which of its function's regions it computes, from 1 on; 0 where no region was formed."""
    tile: tuple[tuple[str, int], ...]
    """Sizes by name: ``threads``, ``rows``, ``vectors``, ``width``, …, in the order of reports."""
    remarks: tuple[str, ...] = ()
    """``masked``, ``registers``, …"""
    grid: tuple[str, ...] = ()
    """Blocks along x, y, z, by the extents of arguments: ``ceildiv(x.0, 4)``; empty where nothing is known."""
    block: tuple[str, ...] = ()
    """Threads of a block, in the same way."""

    def text(self) -> str:
        """The sizes and remarks."""
        return ", ".join([*(f"{name} {size}" for name, size in self.tile), *self.remarks])

    def launch(self) -> str:
        """``blocks ceildiv(x.0, 4), threads 128``; empty where nothing is known."""
        along = [("blocks", self.grid), ("threads", self.block)]
        return ", ".join(f"{name} {' x '.join(_needed(sizes))}" for name, sizes in along if sizes)


def _needed(sizes: tuple[str, ...]) -> tuple[str, ...]:
    """Without the ones at the end."""
    while len(sizes) > 1 and sizes[-1] == "1":
        sizes = sizes[:-1]
    return sizes
