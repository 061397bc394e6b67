"""Vectors that begin at any element: two aligned pieces of 16 bytes are read for each, and shifted.

In: a matrix in memory, a row, and the number of a vector in it. Out: Granules, which say whether both pieces are in
the matrix; the vector, as four words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mlir import ir
from mlir.dialects import arith, llvm, vector

from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.instructions import CHUNK
from aot.lower.contract.codegen.words import Word
from aot.lower.fast.regions.places import Extent

_WORDS = 4
"""Of four bytes, in a vector."""


@dataclass(frozen=True, eq=False)
class Granules:
    """Two aligned pieces of 16 bytes in memory, between which a vector begins; numbers are 64-bit words."""

    start: Word
    """Address of the first one."""
    offset: Word
    """Bytes of it before the vector."""
    inside: ir.Value
    """Whether both are in the factor."""

    def shifted(self) -> ir.Value:
        """The vector, as four words."""
        kind, word = ir.VectorType.get([_WORDS], instructions.word()), instructions.word()
        pieces = [
            llvm.LoadOp(kind, instructions.pointer(self.start + CHUNK * piece, 1), alignment=CHUNK).result
            for piece in range(2)
        ]
        words = [vector.ExtractOp(piece, [], [number]).result for piece in pieces for number in range(_WORDS)]
        for by in (2, 1):
            moved = _differs(self.offset & (4 * by))
            words = [arith.SelectOp(moved, *pair).result for pair in zip(words[by:], words, strict=False)]
        bits = arith.TruncIOp(word, ((self.offset & 3) * 8).value).result
        made = [llvm.intr_fshr(high, low, bits) for low, high in pairwise(words)]
        return vector.FromElementsOp(kind, made[:_WORDS]).result


@dataclass(frozen=True, eq=False)
class Plane:
    """A matrix in memory; extents are indices."""

    start: Word
    """Address of its first element, 64 bits."""
    pitch: Extent
    """Elements from one row to the next."""
    rows: Word
    columns: Word
    lanes: int
    """Elements of a vector."""


def granules(plane: Plane, row: Word, number: Word) -> Granules:
    """Where a vector of a row lies; what it has behind the row's end may be anything."""
    start, size = plane.start, CHUNK // plane.lanes
    pitch, length = Word(plane.pitch.value).wide() * size, plane.columns.wide() * size
    # Rows may overlap, or go backwards: then only the row itself is known to be there.
    apart = arith.CmpIOp(arith.CmpIPredicate.sge, pitch.value, length.value).result
    first, last = row.wide() * pitch, (plane.rows - 1).wide() * pitch
    begin, end = start + first.where(_not(apart), 0), start + last.where(apart, first) + length
    place = start + first + (number * CHUNK).wide()
    lowest = place & -CHUNK
    fits = arith.CmpIOp(arith.CmpIPredicate.uge, lowest.value, begin.value).result
    ends = arith.CmpIOp(arith.CmpIPredicate.ule, (lowest + 2 * CHUNK).value, end.value).result
    return Granules(lowest, place & (CHUNK - 1), arith.AndIOp(fits, ends).result)


def _differs(number: Word) -> ir.Value:
    zero = arith.ConstantOp(number.type, 0).result
    return arith.CmpIOp(arith.CmpIPredicate.ne, number.value, zero).result


def _not(condition: ir.Value) -> ir.Value:
    return arith.XOrIOp(condition, arith.ConstantOp(ir.IntegerType.get_signless(1), True).result).result
