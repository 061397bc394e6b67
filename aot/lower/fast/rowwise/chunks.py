"""Values of a region for one thread: a few neighbouring columns of a row at a time.

In: a region, its places, and chunks of columns. Out: the values of its nodes there, each computed once per chunk.

A chunk is ``width`` columns from ``column`` on. Three modes: ``EXACT``, all chunks are inside the row; ``MASKED``, the
row is a multiple of the width, and a chunk is inside or outside (``valid``); ``SHIFTED``, the row begins at any address
and has any length, and chunks are the aligned vectors inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.fast.region import COLUMN, FULL, PART, ROW, Member, Node, Product, Region, Source
from aot.lower.fast.regions import bodies, places
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.fast.regions.places import Place, Space
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

EXACT, MASKED, SHIFTED = "exact", "masked", "shifted"


@dataclass(eq=False)
class Chunk:
    """Some columns."""

    column: ir.Value
    """The first one."""
    number: ir.Value
    """Counted in chunks from the first whole one of the row."""
    valid: ir.Value | None = None
    """Whether it is in the row; None: always."""
    memo: dict[object, ir.Value] = field(default_factory=dict)


@dataclass
class Evaluator:
    """Evaluates nodes for one row."""

    region: Region
    places: dict[Source, Place]
    space: Space
    width: int
    mode: str
    row: ir.Value
    head: ir.Value | None = None
    """SHIFTED: columns before the row's first chunk."""
    within: bool = False
    """Whether the columns of a chunk differ in the innermost loop only."""
    rows: dict[object, list[ir.Value]] = field(default_factory=dict)
    """Results of reductions, and other values that are one for each row."""
    caches: dict[Source, ir.Value] = field(default_factory=dict)
    """Sources that have been copied to shared memory: vectors, by number."""
    cached_from: ir.Value | None = None
    """Number of the first vector there; None: 0."""

    def values(self, node: Node, chunk: Chunk) -> ir.Value:
        """A vector with an element for each column of the chunk; a scalar when that is one."""
        key: object = node if isinstance(node, Source) else (node.member, node.number)
        if key not in chunk.memo:
            if not self.varies(node):
                chunk.memo[key] = bodies.broadcast(self.row_value(node), self.width)
            elif isinstance(node, Source):
                chunk.memo[key] = self._raw(node, chunk)
            else:
                results = self.elements(node.member, chunk, node.member.operation.yielded)
                chunk.memo.update(((node.member, number), value) for number, value in enumerate(results))
        return chunk.memo[key]

    def varies(self, node: Node) -> bool:
        """Whether columns have values of their own."""
        if isinstance(node, Product):
            return node.kind != ROW
        return node.kind in (FULL, COLUMN) or (
            node.kind == PART and any(loop >= len(self.region.rows) for loop in node.loops)
        )

    def row_value(self, node: Node) -> ir.Value:
        """A value that is the same for all columns."""
        if isinstance(node, Product):
            if node.member not in self.rows:
                self.rows[node.member] = self._element(
                    node.member, [self._row_or_none(n) for n in node.member.nodes], None
                )
            return self.rows[node.member][node.number]
        if node not in self.rows:
            place = self.places[node]
            is_memory = isinstance(place.memory.type, ir.MemRefType)
            value = memref.LoadOp(place.memory, self.indices(place.loops, None)).result if is_memory else place.memory
            self.rows[node] = [value]
        return self.rows[node][0]

    def _row_or_none(self, node: Node | None) -> ir.Value | None:
        return None if node is None else self.row_value(node)

    def elements(self, member: Member, chunk: Chunk, wanted: Sequence[ir.Value]) -> list[ir.Value]:
        """Values of a member's body for the columns of the chunk."""
        body = member.operation.body
        inputs = [None if self._is_running(member, number) else node for number, node in enumerate(member.nodes)]
        vectorial = bodies.is_vectorial(body, wanted) and self._has_lanes(body)
        arguments = [None if node is None else self._argument(node, chunk, vectorial) for node in inputs]
        if self.width == 1:
            return bodies.evaluate(body, arguments, lambda loop: self.index(loop, chunk.column), wanted)
        if vectorial:
            lanes = partial(self._lanes, chunk=chunk)
            narrow = self.region.narrow
            return bodies.evaluate_vector(body, arguments, lanes, wanted, self.width, approximate=narrow)
        apart = [None if each is None else bodies.unpack(each) for each in arguments]
        columns = []
        for number in range(self.width):
            mine = [None if each is None else each[number] for each in apart]
            column = bodies.plus(chunk.column, number)
            columns.append(bodies.evaluate(body, mine, partial(self.index, column=column), wanted))
        return [bodies.pack([each[number] for each in columns]) for number in range(len(wanted))]

    def _has_lanes(self, body: ir.Block) -> bool:
        """Whether what the body asks of the columns' loops is a vector of neighbours, or nothing."""
        return len(self.space.column_loops) == 1 or all(loop < len(self.region.rows) for loop in bodies.asked(body))

    def _argument(self, node: Node, chunk: Chunk, vectorial: bool) -> ir.Value:
        """A vector; or a scalar for all columns, where the body takes both."""
        return self.row_value(node) if vectorial and not self.varies(node) else self.values(node, chunk)

    @staticmethod
    def _is_running(member: Member, number: int) -> bool:
        """Whether an operand is the running value of a reduction: its elements do not depend on it."""
        return member.reducer is not None and number in member.operation.outputs

    def _lanes(self, loop: int, chunk: Chunk) -> ir.Value:
        """An index of each column."""
        if loop < len(self.region.rows):
            return self.index(loop, None)
        return bodies.steps(chunk.column, self.width)

    def _element(self, member: Member, arguments: Sequence[ir.Value | None], column: ir.Value | None) -> list[ir.Value]:
        body = member.operation.body
        return bodies.evaluate(body, arguments, lambda loop: self.index(loop, column), member.operation.yielded)

    def at(self, member: Member, column: ir.Value, wanted: ir.Value) -> ir.Value:
        """A value of a member's body that comes from nothing but indices, for one column."""
        body = member.operation.body
        return bodies.evaluate(body, [None] * len(body.arguments), lambda loop: self.index(loop, column), [wanted])[0]

    def initial(self, member: Member) -> list[ir.Value]:
        """Running values of a reduction before its first element."""
        nodes = [member.nodes[number] for number in member.operation.outputs]
        return [self.row_value(node) for node in nodes if node is not None]

    def index(self, loop: int, column: ir.Value | None) -> ir.Value:
        """The index of a loop; rows by division of the row's number."""
        rows = len(self.region.rows)
        if loop < rows:
            key = ("index", loop)
            if key not in self.rows:
                self.rows[key] = [places.digit(self.row, loop, self.space.row_loops)]
            return self.rows[key][0]
        assert column is not None
        return places.digit(column, loop - rows, self.space.column_loops)

    def indices(self, loops: Sequence[int], column: ir.Value | None) -> list[ir.Value]:
        return [rtcalls.index(0) if loop < 0 else self.index(loop, column) for loop in loops]

    def prefetch(self, nodes: Sequence[Source], chunks: Sequence[Chunk]) -> None:
        """Begin all loads before anything waits for one."""
        for chunk in chunks:
            for node in nodes:
                self._raw(node, chunk)

    def _raw(self, node: Source, chunk: Chunk) -> ir.Value:
        key = ("raw", node)
        if key not in chunk.memo:
            cache = self.caches.get(node)
            if cache is None:
                chunk.memo[key] = self.from_memory(node, chunk)
            else:
                chunk.memo[key] = memref.LoadOp(cache, [self.slot(chunk)]).result
        return chunk.memo[key]

    def slot(self, chunk: Chunk) -> ir.Value:
        """Where a chunk is in shared memory."""
        if self.cached_from is None:
            return chunk.number
        return arith.SubIOp(chunk.number, self.cached_from).result

    def from_memory(self, node: Source, chunk: Chunk) -> ir.Value:
        """A source's columns, read where they lie."""
        place, column = self.places[node], chunk.column
        if chunk.valid is not None:
            first = rtcalls.index(0) if self.head is None else self.head
            column = arith.SelectOp(chunk.valid, column, first).result
        wide = place.wide and self.width > 1
        if wide and (self.mode != SHIFTED or place.kind == FULL):
            return self._vector(place.memory, self.address(place, column))
        if wide and place.flat:
            return self._perhaps_aligned(place, column)
        if self.within and not place.flat and len(self.region.rows) + len(self.region.columns) - 1 not in place.loops:
            return bodies.broadcast(self._scalar(place, column), self.width)
        return bodies.pack([self._scalar(place, bodies.plus(column, number)) for number in range(self.width)])

    def _perhaps_aligned(self, place: Place, column: ir.Value) -> ir.Value:
        """A vector that is aligned in rows that are; there are such rows in most arrays."""
        assert self.head is not None
        plain = arith.CmpIOp(arith.CmpIPredicate.eq, self.head, rtcalls.index(0)).result
        return branches.chosen(
            plain,
            [ir.VectorType.get([self.width], place.element)],
            lambda: [self._vector(place.memory, self.address(place, column))],
            lambda: [bodies.pack([self._scalar(place, bodies.plus(column, number)) for number in range(self.width)])],
        )[0]

    def address(self, place: Place, column: ir.Value) -> list[ir.Value]:
        """Indices of an element."""
        if not place.flat:
            return self.indices(place.loops, column)
        return [column] if place.kind == COLUMN else [self.row, column]

    def store_element(self, place: Place, column: ir.Value, value: ir.Value) -> None:
        """Store one element."""
        memref.StoreOp(value, place.memory, self.address(place, column))

    def _scalar(self, place: Place, column: ir.Value) -> ir.Value:
        return memref.LoadOp(place.memory, self.address(place, column)).result

    def _vector(self, memory: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        element = ir.MemRefType(memory.type).element_type
        return load_vector(memory, indices, self.width, element)
