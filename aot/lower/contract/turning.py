"""A factor copied into rows along ``k`` where memory runs along its other loop: through tiles in shared memory.

In: a Copy, and the buffer. Out: a ``gpu.launch``. Memory is read and written in whole lines; rows of a tile are an
element longer, so that neither meets a bank often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.problem import Factor
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import store_vector
from aot.lower.fast.regions.places import Extent
from aot.lower.fast.rowwise import exchange
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.tiling import CONTRACTIONS

_THREADS = 256
_ROWS = 64
"""Of the buffer, in a tile."""
_BYTES = 128
"""Of a row of the buffer, in a tile; twice as many where elements are wider than a byte."""


@dataclass(frozen=True, eq=False)
class Copy:
    """What is copied; all extents are indices."""

    factor: Factor
    batch: tuple[Word, ...]
    rows: Word
    """Of the buffer: the factor's contiguous loop."""
    columns: Word
    """Of the factor: ``k``."""
    vectors: Word
    """Of a row that are written."""
    pitch: Extent
    """Elements from one row of the buffer to the next."""
    lanes: int

    @property
    def deep(self) -> int:
        """Elements of a row of the buffer, in a tile."""
        size = rtcalls.storage_bytes(self.factor.element)
        return _BYTES if size == 1 else 2 * _BYTES // size

    @property
    def shape(self) -> tuple[int, int]:
        """Of a tile in shared memory."""
        return self.deep, _ROWS + 1


def launch(copy: Copy, buffer: ir.Value) -> None:
    """Emit the launch at the insertion point."""
    size = copy.shape[0] * copy.shape[1] * rtcalls.storage_bytes(copy.factor.element)
    across, one = copy.columns.tiles(copy.deep), rtcalls.index(1)
    blocks = copy.rows.tiles(_ROWS) * across
    for each in copy.batch:
        blocks = blocks * each
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), size).result
    sizes = ((blocks.value, one, one), (rtcalls.index(_THREADS), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory).operation
    tiling.mark(op, CONTRACTIONS, 0, "turn", {"rows": _ROWS, "columns": copy.deep, "threads": _THREADS})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, thread = Word(body.arguments[0]), Word(body.arguments[3])
        rest, column = number // across, number % across * copy.deep
        down = copy.rows.tiles(_ROWS)
        plane, row = rest // down, rest % down * _ROWS
        kept = _read(copy, thread, (plane, row, column))
        gpu.BarrierOp()
        _write(copy, thread, (plane, row, column), kept, buffer)


Corner = tuple[Word, Word, Word]
"""Number of the matrix; row and column of the buffer."""


def _read(copy: Copy, thread: Word, corner: Corner) -> ir.Value:
    """Bring a tile to shared memory: all is on its way before anything waits for it. Its memory."""
    plane, row, column = corner
    kind = ir.MemRefType.get(copy.shape, copy.factor.element, memory_space=ir.Attribute.parse(exchange.SHARED))
    kept = memref.ViewOp(kind, exchange.shared_memory(), rtcalls.index(0), []).result
    near, far, step = thread % _ROWS, thread // _ROWS, _THREADS // _ROWS
    batch: list[ir.Value] = []
    for extent in reversed(copy.batch):
        batch.insert(0, (plane % extent).value)
        plane = plane // extent
    places = [far + first for first in range(0, copy.deep, step)]
    values = [_element(copy, batch, row + near, column + place) for place in places]
    for place, value in zip(places, values, strict=True):
        memref.StoreOp(value, kept, [place.value, near.value])
    return kept


def _element(copy: Copy, batch: Sequence[ir.Value], row: Word, column: Word) -> ir.Value:
    """An element of the buffer; zero behind the factor's last column. Rows behind the last one are never written."""
    inside = (row.least(copy.rows - 1), column.least(copy.columns - 1))
    at = copy.factor.indices(list(batch), *(each.value for each in inside))
    value = memref.LoadOp(copy.factor.memory, at).result
    return arith.SelectOp(column.below(copy.columns), value, epilogue.zero(copy.factor.element)).result


def _write(copy: Copy, thread: Word, corner: Corner, kept: ir.Value, buffer: ir.Value) -> None:
    plane, row, column = corner
    across = copy.deep // copy.lanes
    for first in range(0, _ROWS * across, _THREADS):
        near, far = thread % across, (thread + first) // across
        vector = column // copy.lanes + near
        inside = arith.AndIOp((row + far).below(copy.rows), vector.below(copy.vectors)).result
        places = [near * copy.lanes + lane for lane in range(copy.lanes)]
        values = bodies.pack([memref.LoadOp(kept, [place.value, far.value]).result for place in places])
        target = (plane * copy.rows + row + far) * Word(copy.pitch.value) + vector * copy.lanes
        with branches.guard(inside):
            store_vector(values, buffer, [target.value])
