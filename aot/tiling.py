"""How a kernel was made from tensor level, as reports and the manifest tell it.

In: what a schedule chose. Out: its text.

>>> Tiling("rows", 1, (("threads", 128), ("width", 4)), ("masked",)).text()
'threads 128, width 4, masked'
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def text(self) -> str:
        """The sizes and remarks."""
        return ", ".join([*(f"{name} {size}" for name, size in self.tile), *self.remarks])
