"""How blocks that reduce rows divide the work: threads side by side, below each other, rows in flight.

In: extents. Out: a Shape and Turns, as values of host code: kernels that divide themselves begin later.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from aot.lower import rtcalls
from aot.lower.fast.places import Extent


@dataclass(frozen=True)
class Form:
    """How a block divides the work."""

    threads: int
    """A power of two."""
    across: int
    """Threads side by side, as a rule: fewer where there are fewer columns, which leaves more of them for the rows."""
    unroll: int
    """Rows that a thread has in flight."""

    def sizes(self) -> dict[str, int]:
        """For reports."""
        return {"threads": self.threads, "across": self.across, "rows": self.unroll}

    def lanes(self, columns: Extent, width: int) -> ir.Value:
        """Threads side by side that have columns, on the host: a power of two."""
        found, power = rtcalls.index(1), 1
        while power < self.threads:
            more = arith.CmpIOp(arith.CmpIPredicate.ugt, columns.value, rtcalls.index(power * width)).result
            power *= 2
            found = arith.SelectOp(more, rtcalls.index(power), found).result
        return found


@dataclass(frozen=True)
class Shape:
    """The form of the blocks of a launch."""

    form: Form
    lanes: ir.Value
    shift: ir.Value
    """Its logarithm."""
    depth: ir.Value
    """Threads below each other."""
    reach: ir.Value
    """Rows of a block's turn."""

    @staticmethod
    def of(form: Form, columns: Extent, width: int, across: ir.Value | None = None) -> Shape:
        """On the host."""
        across = rtcalls.index(form.across) if across is None else across
        lanes = arith.MinUIOp(form.lanes(columns, width), across).result
        long = ir.IntegerType.get_signless(64)
        zeros = math.CountTrailingZerosOp(arith.IndexCastUIOp(long, lanes).result).result
        shift = arith.IndexCastUIOp(ir.IndexType.get(), zeros).result
        depth = arith.ShRUIOp(rtcalls.index(form.threads), shift).result
        return Shape(form, lanes, shift, depth, arith.MulIOp(depth, rtcalls.index(form.unroll)).result)


@dataclass(frozen=True)
class Turns:
    """Turns over rows, which blocks take one after the other."""

    rows: ir.Value
    whole: ir.Value
    """Turns that have all of their rows."""
    blocks: ir.Value
    last: ir.Value
    """The block that has the turn behind those."""

    @staticmethod
    def of(shape: Shape, rows: ir.Value, blocks: ir.Value) -> Turns:
        """On the host."""
        whole = arith.DivUIOp(rows, shape.reach).result
        return Turns(rows, whole, blocks, arith.RemUIOp(whole, blocks).result)
