"""Tiles of ``turning`` whose elements are bytes: words of four are read, and turned in registers.

In: a Copy, a thread's number in its block, and a tile's corner. Out: code that reads the tile and writes it to the
buffer. A byte at a time would be an instruction for each.

A thread has four rows of the buffer and eight of its columns, and keeps eight bytes of each row in shared memory, where
these pieces of a row are permuted by its number: neighbours in memory and in the buffer both find banks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, gpu, vector

from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.words import Word, narrow
from aot.lower.contract.products import epilogue
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.launches import branches

if TYPE_CHECKING:
    from aot.lower.contract.turning import Copy, Corner

THREADS, ROWS, DEEP = 256, 64, 128
"""Of a block; rows of the buffer in a tile, and bytes of each."""
_WORD, _PIECE = 4, 8
"""Bytes that are read together, and that are kept together."""


def emit(copy: Copy, thread: Word, corner: Corner, buffer: ir.Value) -> None:
    """A tile."""
    thread = narrow(thread.value)
    kept = Shared(copy.factor.element, (ROWS, DEEP), 0, _PIECE)
    down, across = thread % (ROWS // _WORD), thread // (ROWS // _WORD)
    row, column = corner.row + _index(down * _WORD), corner.column + _index(across * _PIECE)
    batch = copy.matrix(corner.plane)

    def keep(pieces: Sequence[ir.Value]) -> None:
        for number, piece in enumerate(pieces):
            kept.store(piece, [down * _WORD + number], _place(down, across))

    def words() -> None:
        found = [_word(copy, batch, row, column + number) for number in range(_PIECE)]
        halves = [_turned(found[first : first + _WORD]) for first in range(0, _PIECE, _WORD)]
        keep([_shuffled(pair, range(_PIECE)) for pair in zip(*halves, strict=True)])

    def single() -> None:
        places = [[(row + below, column + number) for number in range(_PIECE)] for below in range(_WORD)]
        keep([bodies.pack([copy.read(batch, *place) for place in those]) for those in places])

    branches.either(copy.wide, words, single)
    gpu.BarrierOp()
    _write(copy, thread, corner, kept, buffer)


def _write(copy: Copy, thread: Word, corner: Corner, kept: Shared, buffer: ir.Value) -> None:
    """Vectors of two pieces go to the buffer."""
    across = DEEP // copy.lanes
    for first in range(0, ROWS, THREADS // across):
        near, far = thread % across, thread // across + first
        halves = [kept.load([far], _place(far // _WORD, near * 2 + number), _PIECE) for number in range(2)]
        values = _shuffled(halves, range(2 * _PIECE))
        place = (corner.row + _index(far), corner.column // copy.lanes + _index(near))
        copy.put(values, corner.plane, *place, buffer)


def _place(down: Word, across: Word) -> Word:
    """Where a row's piece is kept; ``down``: which four rows the row is one of."""
    return (down ^ across) * _PIECE


def _word(copy: Copy, batch: Sequence[ir.Value], row: Word, column: Word) -> ir.Value:
    """Four bytes below each other in the buffer, which has whole words of them; zeros behind its last column."""
    inside = (row.least(copy.rows - _WORD), column.least(copy.columns - 1))
    at = copy.factor.indices(list(batch), *(each.value for each in inside))
    value = load_vector(copy.factor.memory, at, _WORD, copy.factor.element)
    zero = vector.BroadcastOp(value.type, epilogue.zero(copy.factor.element)).result
    return arith.SelectOp(column.below(copy.columns), value, zero).result


def _turned(words: Sequence[ir.Value]) -> list[ir.Value]:
    """Four by four bytes: columns of what was given."""
    pairs = (words[:2], words[2:])
    low, high = ([_shuffled(pair, places) for pair in pairs] for places in ((0, 4, 1, 5), (2, 6, 3, 7)))
    return [_shuffled(both, places) for both in (low, high) for places in ((0, 1, 4, 5), (2, 3, 6, 7))]


def _shuffled(pair: Sequence[ir.Value], places: Sequence[int]) -> ir.Value:
    one, other = pair
    return vector.ShuffleOp(one, other, list(places)).result


def _index(word: Word) -> Word:
    return Word(word.index())
