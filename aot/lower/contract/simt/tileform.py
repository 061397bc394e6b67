"""How a block divides a product that is held in registers, and how its factors' tiles lie in shared memory.

In: extents, threads, sizes. Out: a Form, which knows where in a ring of stages each factor begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.lower.contract.codegen.tiles import Told
from aot.lower.contract.simt.numbercopies import Shape


@dataclass(frozen=True)
class Form:
    """How a block divides the work."""

    name: str
    """Of the schedule."""
    rows: int
    columns: int
    depth: int
    """Of ``k`` at a time."""
    stages: int
    """Of the ring."""
    threads: int
    blocks: int
    """On a multiprocessor: a thread has the registers that this leaves it."""
    size: int
    """Bytes of a number."""
    pads: tuple[int, int]
    """Bytes by which a row of each factor in shared memory is longer, so that columns meet different banks."""
    along_k: tuple[bool, bool] = (False, False)
    """Whether rows of each factor in shared memory run along ``k``."""

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """Of the factors' tiles in shared memory."""
        one, other = map(self._shape, (0, 1))
        return one, other

    def _shape(self, side: int) -> Shape:
        extent, along_k = self.extents[side], self.along_k[side]
        row = (self.depth if along_k else extent) * self.size + self.pads[side]
        return Shape(extent, self.depth, self.threads, self.size, row, along_k)

    @property
    def slab_row(self) -> int:
        """Numbers from one row of sums in shared memory to the next."""
        return self.columns + self.pads[1] // self.size

    @property
    def starts(self) -> tuple[int, int]:
        """Bytes of a stage at which the factors begin."""
        return 0, self.shapes[0].size

    @property
    def stage(self) -> int:
        """Bytes of a stage."""
        return self.starts[1] + self.shapes[1].size

    @property
    def ring(self) -> int:
        """Bytes of all stages."""
        return self.stages * self.stage

    def told(self, *, copied: bool) -> Told:
        """For reports."""
        sizes = {"rows": self.rows, "columns": self.columns, "depth": self.depth, "stages": self.stages}
        return Told(self.name, {**sizes, "threads": self.threads}, () if copied else ("through registers",))
