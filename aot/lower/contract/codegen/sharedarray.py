"""Arrays in the shared memory of a block, for single elements and for vectors of 16 bytes.

In: element type, extents and the first byte. Out: loads and stores at the insertion point.

Two memrefs see the same bytes, one of elements, one of vectors: the conversions of ``vector.load`` know no address
spaces, those of a memref of vectors do.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from aot.lower.contract.codegen.words import Word
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.places import VECTOR_BYTES
from aot.lower.fast.rowwise import exchange
from aot.lower.hostmodule import rtcalls


class Shared:
    """An array; its last extent is a whole number of vectors."""

    def __init__(self, element: ir.Type, shape: Sequence[int], start: int | ir.Value, lanes: int = 0) -> None:
        self.shape = list(shape)
        self.start = rtcalls.index(start) if isinstance(start, int) else start
        self.lanes = lanes or VECTOR_BYTES // rtcalls.storage_bytes(element)
        # Here, where they dominate all that comes: an access may be the first one of its kind inside a branch.
        self.elements, self.vectors = (
            self._view(element, 1),
            self._view(ir.VectorType.get([self.lanes], element), self.lanes),
        )

    def _view(self, kind: ir.Type, lanes: int) -> ir.Value:
        *outer, last = self.shape
        assert last % lanes == 0
        space = ir.Attribute.parse(exchange.SHARED)
        view = ir.MemRefType.get([*outer, last // lanes], kind, memory_space=space)
        return memref.ViewOp(view, exchange.shared_memory(), self.start, []).result

    def load(self, outer: Sequence[Word], last: Word, width: int) -> ir.Value:
        """``width`` elements; a vector begins at a multiple of 16 bytes."""
        at = [each.index() for each in outer]
        if width == 1:
            return memref.LoadOp(self.elements, [*at, last.index()]).result
        first = last // self.lanes
        if width < self.lanes:
            whole = memref.LoadOp(self.vectors, [*at, first.index()]).result
            return bodies.pack(bodies.unpack(whole)[:width])
        parts = [
            memref.LoadOp(self.vectors, [*at, (first + number).index()]).result for number in range(width // self.lanes)
        ]
        return parts[0] if len(parts) == 1 else bodies.pack([each for part in parts for each in bodies.unpack(part)])

    def store(self, value: ir.Value, outer: Sequence[Word], last: Word) -> None:
        """The same for stores, of whole vectors or single elements."""
        at = [each.index() for each in outer]
        parts = bodies.unpack(value)
        if len(parts) < self.lanes:
            for number, each in enumerate(parts):
                memref.StoreOp(each, self.elements, [*at, (last + number).index()])
            return
        first = last // self.lanes
        for number in range(len(parts) // self.lanes):
            part = value
            if len(parts) > self.lanes:
                part = bodies.pack(parts[self.lanes * number : self.lanes * (number + 1)])
            memref.StoreOp(part, self.vectors, [*at, (first + number).index()])
