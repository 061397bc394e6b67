"""A factor copied into rows along ``k`` where memory runs along its other loop: through tiles in shared memory.

In: a Turn, and the buffer. Out: a ``gpu.launch``. Memory is read and written in whole lines; rows of a tile are an
element longer, so that neither meets a bank often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.contract import epilogue
from aot.lower.contract.problem import Factor
from aot.lower.contract.words import Word
from aot.lower.fast import bodies, exchange
from aot.lower.fast.accesses import store_vector
from aot.lower.fast.places import Extent

_THREADS = 256
_ROWS = 64
"""Of the buffer, in a tile."""
_BYTES = 128
"""Of a row of the buffer, in a tile; twice as many where elements are wider than a byte."""


@dataclass(frozen=True, eq=False)
class Turn:
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


def launch(turn: Turn, buffer: ir.Value) -> None:
    """Emit the launch at the insertion point."""
    size = turn.shape[0] * turn.shape[1] * rtcalls.storage_bytes(turn.factor.element)
    across, one = turn.columns.tiles(turn.deep), rtcalls.index(1)
    blocks = turn.rows.tiles(_ROWS) * across
    for each in turn.batch:
        blocks = blocks * each
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), size).result
    sizes = ((blocks.value, one, one), (rtcalls.index(_THREADS), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory).operation
    tiling.mark(op, "contractions", 0, "turn", {"rows": _ROWS, "columns": turn.deep, "threads": _THREADS})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, thread = Word(body.arguments[0]), Word(body.arguments[3])
        rest, column = number // across, number % across * turn.deep
        down = turn.rows.tiles(_ROWS)
        plane, row = rest // down, rest % down * _ROWS
        kept = _read(turn, thread, (plane, row, column))
        gpu.BarrierOp()
        _write(turn, thread, (plane, row, column), kept, buffer)


Corner = tuple[Word, Word, Word]
"""Number of the matrix; row and column of the buffer."""


def _read(turn: Turn, thread: Word, corner: Corner) -> ir.Value:
    """Bring a tile to shared memory: all is on its way before anything waits for it. Its memory."""
    plane, row, column = corner
    kind = ir.MemRefType.get(turn.shape, turn.factor.element, memory_space=ir.Attribute.parse(exchange.SHARED))
    kept = memref.ViewOp(kind, exchange.shared_memory(), rtcalls.index(0), []).result
    near, far, step = thread % _ROWS, thread // _ROWS, _THREADS // _ROWS
    batch: list[ir.Value] = []
    for extent in reversed(turn.batch):
        batch.insert(0, (plane % extent).value)
        plane = plane // extent
    places = [far + first for first in range(0, turn.deep, step)]
    values = [_element(turn, batch, row + near, column + place) for place in places]
    for place, value in zip(places, values, strict=True):
        memref.StoreOp(value, kept, [place.value, near.value])
    return kept


def _element(turn: Turn, batch: Sequence[ir.Value], row: Word, column: Word) -> ir.Value:
    """An element of the buffer; zero behind the factor's last column. Rows behind the last one are never written."""
    inside = (row.least(turn.rows - 1), column.least(turn.columns - 1))
    at = turn.factor.indices(list(batch), *(each.value for each in inside))
    value = memref.LoadOp(turn.factor.memory, at).result
    return arith.SelectOp(column.below(turn.columns), value, epilogue.zero(turn.factor.element)).result


def _write(turn: Turn, thread: Word, corner: Corner, kept: ir.Value, buffer: ir.Value) -> None:
    plane, row, column = corner
    across = turn.deep // turn.lanes
    for first in range(0, _ROWS * across, _THREADS):
        near, far = thread % across, (thread + first) // across
        vector = column // turn.lanes + near
        inside = arith.AndIOp((row + far).below(turn.rows), vector.below(turn.vectors)).result
        places = [near * turn.lanes + lane for lane in range(turn.lanes)]
        values = bodies.pack([memref.LoadOp(kept, [place.value, far.value]).result for place in places])
        target = (plane * turn.rows + row + far) * Word(turn.pitch.value) + vector * turn.lanes
        branch = scf.IfOp(inside)
        with ir.InsertionPoint(branch.then_block):
            store_vector(values, buffer, [target.value])
            scf.YieldOp([])
