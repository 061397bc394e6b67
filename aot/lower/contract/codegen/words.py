"""Integers of a kernel with the usual operators, so that address arithmetic reads as such.

In: values of one integer type (i32, i64, index) and Python's integers. Out: values, computed at the insertion point;
what is known when the kernel is made costs nothing.

>>> (Word(row) * 64 + Word(column)).value                                     # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith


@dataclass(frozen=True, eq=False)
class Word:
    """An unsigned integer."""

    value: ir.Value

    @property
    def type(self) -> ir.Type:
        return self.value.type

    def _other(self, other: Word | int) -> ir.Value:
        return arith.ConstantOp(self.type, other).result if isinstance(other, int) else other.value

    def __add__(self, other: Word | int) -> Word:
        return self if _is(other, 0) else Word(arith.AddIOp(self.value, self._other(other)).result)

    def __sub__(self, other: Word | int) -> Word:
        return self if _is(other, 0) else Word(arith.SubIOp(self.value, self._other(other)).result)

    def __mul__(self, other: Word | int) -> Word:
        return self if _is(other, 1) else Word(arith.MulIOp(self.value, self._other(other)).result)

    def __floordiv__(self, other: Word | int) -> Word:
        return self if _is(other, 1) else Word(arith.DivUIOp(self.value, self._other(other)).result)

    def __mod__(self, other: Word | int) -> Word:
        return self * 0 if _is(other, 1) else Word(arith.RemUIOp(self.value, self._other(other)).result)

    def __and__(self, other: Word | int) -> Word:
        return Word(arith.AndIOp(self.value, self._other(other)).result)

    def __or__(self, other: Word | int) -> Word:
        return Word(arith.OrIOp(self.value, self._other(other)).result)

    def __xor__(self, other: Word | int) -> Word:
        return Word(arith.XOrIOp(self.value, self._other(other)).result)

    def shifted(self, by: Word) -> Word:
        """Moved so many bits up."""
        return Word(arith.ShLIOp(self.value, by.value).result)

    def moved_down(self, by: Word) -> Word:
        """Moved so many bits down."""
        return Word(arith.ShRUIOp(self.value, by.value).result)

    def least(self, other: Word | int) -> Word:
        """The smaller one."""
        return Word(arith.MinUIOp(self.value, self._other(other)).result)

    def tiles(self, size: int) -> Word:
        """How many tiles of a size it takes."""
        return (self + (size - 1)) // size

    def tiles_of(self, size: Word) -> Word:
        """The same for a size that is not known here."""
        return Word(arith.CeilDivUIOp(self.value, size.value).result)

    def below(self, other: Word | int) -> ir.Value:
        """Whether it is smaller."""
        return arith.CmpIOp(arith.CmpIPredicate.ult, self.value, self._other(other)).result

    def equals(self, other: Word | int) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.eq, self.value, self._other(other)).result

    def where(self, condition: ir.Value, other: Word | int) -> Word:
        """Itself if the condition holds, else the other one."""
        return Word(arith.SelectOp(condition, self.value, self._other(other)).result)

    def index(self) -> ir.Value:
        """As an index."""
        kind = ir.IndexType.get()
        return self.value if self.type == kind else arith.IndexCastUIOp(kind, self.value).result

    def wide(self) -> Word:
        """A 32-bit one as 64 bits."""
        long = ir.IntegerType.get_signless(64)
        if isinstance(self.type, ir.IndexType):
            return Word(arith.IndexCastUIOp(long, self.value).result)
        return Word(arith.ExtUIOp(long, self.value).result)


def _is(other: Word | int, number: int) -> bool:
    return isinstance(other, int) and other == number


def narrow(value: ir.Value) -> Word:
    """An index as 32 bits."""
    return Word(arith.IndexCastUIOp(ir.IntegerType.get_signless(32), value).result)


def constant(number: int) -> Word:
    """A 32-bit constant."""
    return Word(arith.ConstantOp(ir.IntegerType.get_signless(32), number).result)
