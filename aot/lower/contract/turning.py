"""A factor copied into rows along ``k`` where memory runs along its other loop: through tiles in shared memory.

In: a Copy, and the buffer. Out: a ``gpu.launch``. Memory is read and written in whole lines; in shared memory neither
meets a bank often: rows of words are an element longer there, bytes are turned in registers (``turnedbytes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.contract import turnedbytes
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import epilogue
from aot.lower.contract.products.problem import Factor
from aot.lower.contract.turnedbytes import ROWS, THREADS
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import store_vector
from aot.lower.fast.regions.places import Extent
from aot.lower.fast.rowwise import exchange
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.tiling import CONTRACTIONS

_DEEP = 64
"""Elements of a row of the buffer, in a tile, where they are wider than a byte."""


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
    wide: ir.Value | bool
    """Whether the factor's contiguous loop is read in whole vectors, aligned."""

    @property
    def is_bytes(self) -> bool:
        return rtcalls.storage_bytes(self.factor.element) == 1

    @property
    def deep(self) -> int:
        """Elements of a row of the buffer, in a tile."""
        return turnedbytes.DEEP if self.is_bytes else _DEEP

    @property
    def shape(self) -> tuple[int, int]:
        """Of a tile in shared memory."""
        return self.deep, ROWS + (not self.is_bytes)

    def matrix(self, number: Word) -> list[ir.Value]:
        """Indices of the loops around the product."""
        found: list[ir.Value] = []
        for extent in reversed(self.batch):
            found.insert(0, (number % extent).value)
            number = number // extent
        return found

    def read(self, batch: Sequence[ir.Value], row: Word, column: Word) -> ir.Value:
        """An element of the buffer; zero behind the factor's last column. Rows behind its last one nobody writes."""
        inside = (row.least(self.rows - 1), column.least(self.columns - 1))
        at = self.factor.indices(list(batch), *(each.value for each in inside))
        value = memref.LoadOp(self.factor.memory, at).result
        return arith.SelectOp(column.below(self.columns), value, epilogue.zero(self.factor.element)).result

    def put(self, values: ir.Value, plane: Word, row: Word, vector: Word, buffer: ir.Value) -> None:
        """Store a vector of the buffer, if it has one there."""
        inside = arith.AndIOp(row.below(self.rows), vector.below(self.vectors)).result
        target = (plane * self.rows + row) * Word(self.pitch.value) + vector * self.lanes
        with branches.guard(inside):
            store_vector(values, buffer, [target.value])


@dataclass(frozen=True, eq=False)
class Corner:
    """A tile's place."""

    plane: Word
    """Number of the matrix."""
    row: Word
    column: Word
    """Of the buffer."""


def launch(copy: Copy, buffer: ir.Value) -> None:
    """Emit the launch at the insertion point."""
    size = copy.shape[0] * copy.shape[1] * rtcalls.storage_bytes(copy.factor.element)
    across, one = copy.columns.tiles(copy.deep), rtcalls.index(1)
    blocks = copy.rows.tiles(ROWS) * across
    for each in copy.batch:
        blocks = blocks * each
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), size).result
    sizes = ((blocks.value, one, one), (rtcalls.index(THREADS), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory).operation
    tiling.mark(op, CONTRACTIONS, 0, "turn", {"rows": ROWS, "columns": copy.deep, "threads": THREADS})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, thread = Word(body.arguments[0]), Word(body.arguments[3])
        rest, column = number // across, number % across * copy.deep
        down = copy.rows.tiles(ROWS)
        plane, row = rest // down, rest % down * ROWS
        corner = Corner(plane, row, column)
        if copy.is_bytes:
            turnedbytes.emit(copy, thread, corner, buffer)
        else:
            _emit(copy, thread, corner, buffer)


def _emit(copy: Copy, thread: Word, corner: Corner, buffer: ir.Value) -> None:
    """A tile of elements that are wider than a byte."""
    kind = ir.MemRefType.get(copy.shape, copy.factor.element, memory_space=ir.Attribute.parse(exchange.SHARED))
    kept = memref.ViewOp(kind, exchange.shared_memory(), rtcalls.index(0), []).result
    _read(copy, thread, corner, kept)
    gpu.BarrierOp()
    _write(copy, thread, corner, kept, buffer)


def _read(copy: Copy, thread: Word, corner: Corner, kept: ir.Value) -> None:
    """Bring it to shared memory: all is on its way before anything waits for it."""
    near, far, step = thread % ROWS, thread // ROWS, THREADS // ROWS
    batch = copy.matrix(corner.plane)
    places = [far + first for first in range(0, copy.deep, step)]
    values = [copy.read(batch, corner.row + near, corner.column + place) for place in places]
    for place, value in zip(places, values, strict=True):
        memref.StoreOp(value, kept, [place.value, near.value])


def _write(copy: Copy, thread: Word, corner: Corner, kept: ir.Value, buffer: ir.Value) -> None:
    across = copy.deep // copy.lanes
    for first in range(0, ROWS * across, THREADS):
        near, far = thread % across, (thread + first) // across
        places = [near * copy.lanes + lane for lane in range(copy.lanes)]
        values = bodies.pack([memref.LoadOp(kept, [place.value, far.value]).result for place in places])
        copy.put(values, corner.plane, corner.row + far, corner.column // copy.lanes + near, buffer)
