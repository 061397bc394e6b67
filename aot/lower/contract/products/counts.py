"""Arithmetic with numbers of which the build knows some, and host code the others: extents, and what follows of them.

In: Numbers, at an insertion point in host code. Out: Numbers and answers, known where what they come of is.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import problem
from aot.lower.contract.products.extents import Number
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls


def number(extent: Extent) -> Number:
    """An extent's."""
    return Word(extent.value) if extent.static is None else extent.static


def times(one: Number, other: Number) -> Number:
    """A product."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    return one * other if isinstance(one, Word) else times(other, one)


def tiles(extent: Number, size: int) -> Number:
    """How many tiles of a size an extent takes."""
    return -(-extent // size) if isinstance(extent, int) else extent.tiles(size)


def ceiling(count: Number, of: Number) -> Number:
    """A quotient, rounded up."""
    if isinstance(count, int) and isinstance(of, int):
        return -(-count // of)
    above = _word(count) + _word(of) - 1
    return above // of


def _word(number: Number) -> Word:
    return Word(rtcalls.index(number)) if isinstance(number, int) else number


def at_most(one: Number, other: Number) -> ir.Value | bool:
    """Whether one number is no larger than the other."""
    if isinstance(one, int) and isinstance(other, int):
        return one <= other
    return arith.CmpIOp(arith.CmpIPredicate.ule, _word(one).value, _word(other).value).result


def at_least(one: Number, other: Number) -> ir.Value | bool:
    """Whether it is no smaller."""
    return at_most(other, one)


def negated(one: ir.Value | bool) -> ir.Value | bool:
    """Whether an answer is no."""
    if isinstance(one, bool):
        return not one
    return arith.XOrIOp(one, arith.ConstantOp(ir.IntegerType.get_signless(1), True).result).result


def both(one: ir.Value | bool, other: ir.Value | bool) -> ir.Value | bool:
    """Whether two are yes."""
    return problem.all_of([one, other])
