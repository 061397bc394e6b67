"""How blocks that reduce rows divide the work: threads side by side, below each other, rows in flight.

In: extents. Out: a Shape and Turns, as values of host code: kernels that divide themselves begin later.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from aot.lower.hostmodule import rtcalls
from aot.targets.arch import WARP

_BITS = 64


@dataclass(frozen=True)
class Form:
    """How a block divides the work."""

    threads: int
    """At most; a power of two."""
    across: int
    """Threads side by side, as a rule: fewer where there are fewer columns, which leaves more of them for the rows."""
    unroll: int
    """Rows that a thread has in flight."""

    def sizes(self) -> dict[str, int]:
        """For reports."""
        return {"threads": self.threads, "across": self.across, "rows": self.unroll}


@dataclass(frozen=True)
class Shape:
    """The form of the blocks of a launch."""

    form: Form
    threads: ir.Value
    """A power of two, and whole warps."""
    lanes: ir.Value
    """Threads side by side: a power of two."""
    shift: ir.Value
    """Its logarithm."""
    depth: ir.Value
    """Threads below each other."""
    reach: ir.Value
    """Rows of a block's turn."""

    @staticmethod
    def of(form: Form, rows: ir.Value, vectors: ir.Value, across: ir.Value | None = None) -> Shape:
        """On the host: no more threads than rows and vectors of columns keep busy."""
        across = rtcalls.index(form.across) if across is None else across
        shift = arith.MinUIOp(_logarithm(vectors), _logarithm(across)).result
        lanes = _power(shift)
        most = arith.ShRUIOp(rtcalls.index(form.threads), shift).result
        least = arith.ShRUIOp(rtcalls.index(WARP), shift).result
        turn = arith.CeilDivUIOp(rows, rtcalls.index(form.unroll)).result
        wanted = arith.MaxUIOp(_power(_logarithm(turn)), arith.MaxUIOp(least, rtcalls.index(1)).result).result
        depth = arith.MinUIOp(wanted, most).result
        threads = arith.ShLIOp(depth, shift).result
        return Shape(form, threads, lanes, shift, depth, arith.MulIOp(depth, rtcalls.index(form.unroll)).result)


def _logarithm(number: ir.Value) -> ir.Value:
    """The least ``n`` so that ``2**n`` is the number or more; 0 for 0."""
    long = ir.IntegerType.get_signless(_BITS)
    less = arith.SubIOp(arith.MaxUIOp(number, rtcalls.index(1)).result, rtcalls.index(1)).result
    zeros = math.CountLeadingZerosOp(arith.IndexCastUIOp(long, less).result).result
    return arith.SubIOp(rtcalls.index(_BITS), arith.IndexCastUIOp(ir.IndexType.get(), zeros).result).result


def _power(exponent: ir.Value) -> ir.Value:
    return arith.ShLIOp(rtcalls.index(1), exponent).result


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
