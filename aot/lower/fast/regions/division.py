"""Division by extents that only the call knows: a multiplication, prepared on the host.

In: an extent of host code, and the number of elements. Out: a Divisor, and quotients of numbers below that one.

The GPU divides in some twenty instructions, or several times that for 64 bits; a product of 32 bits and two shifts take
five. The multiplier for ``d`` is ``2**32 * (2**l - d) / d + 1`` with ``l = ceil(log2(d))`` (Granlund and Montgomery:
Division by invariant integers using multiplication, figure 4.1). Spaces of 2**32 elements and more divide as ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, math

from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

_WORD = 32


@dataclass(frozen=True)
class Divisor:
    """What a division by an extent needs, as values of host code."""

    extent: ir.Value
    multiplier: ir.Value
    first: ir.Value
    second: ir.Value
    """Shifts."""
    small: ir.Value
    """Whether all numbers have 32 bits."""

    @staticmethod
    def of(extent: ir.Value, total: ir.Value) -> Divisor:
        """At the insertion point, for numbers below ``total``."""
        long, word = (ir.IntegerType.get_signless(bits) for bits in (2 * _WORD, _WORD))
        zero, one, bits = (arith.ConstantOp(long, number).result for number in (0, 1, _WORD))
        divisor = arith.MaxUIOp(arith.IndexCastUIOp(long, extent).result, one).result
        leading = math.CountLeadingZerosOp(arith.SubIOp(divisor, one).result).result
        log = arith.SubIOp(arith.ConstantOp(long, 2 * _WORD).result, leading).result
        log = arith.MinUIOp(log, bits).result
        over = arith.SubIOp(arith.ShLIOp(one, log).result, divisor).result
        multiplier = arith.AddIOp(arith.DivUIOp(arith.ShLIOp(over, bits).result, divisor).result, one).result
        first = arith.MinUIOp(log, one).result
        second = arith.MaxSIOp(arith.SubIOp(log, one).result, zero).result
        limit = rtcalls.index(1 << _WORD)
        small = arith.CmpIOp(arith.CmpIPredicate.ult, total, limit).result
        small = arith.AndIOp(small, arith.CmpIOp(arith.CmpIPredicate.ult, extent, limit).result).result
        multiplier, first, second = (arith.TruncIOp(word, each).result for each in (multiplier, first, second))
        return Divisor(extent, multiplier, first, second, small)

    @staticmethod
    def of_blocks(extent: ir.Value, blocks: ir.Value) -> Divisor:
        """The same for numbers of blocks: no launch has more of them than 32 bits can tell."""
        return Divisor.of(extent, blocks).short()

    def short(self) -> Divisor:
        """The same where all numbers are known to have 32 bits."""
        return replace(self, small=arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result)

    def quotient(self, number: ir.Value) -> ir.Value:
        """In a kernel."""

        def multiplied() -> list[ir.Value]:
            low = arith.IndexCastUIOp(self.multiplier.type, number).result
            high = arith.MulUIExtendedOp(low, self.multiplier).high
            rest = arith.ShRUIOp(arith.SubIOp(low, high).result, self.first).result
            found = arith.ShRUIOp(arith.AddIOp(high, rest).result, self.second).result
            return [arith.IndexCastUIOp(number.type, found).result]

        def divided() -> list[ir.Value]:
            return [arith.DivUIOp(number, self.extent).result]

        return branches.chosen(self.small, [number.type], multiplied, divided)[0]
