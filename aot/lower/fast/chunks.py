"""Values of a region for one thread: a few neighbouring columns of a row at a time.

In: a region, its places, and chunks of columns. Out: the values of its nodes there, each computed once per chunk.

A chunk is ``width`` columns from ``column`` on. Three modes: ``EXACT``, all chunks are inside the row; ``MASKED``, the
row is a multiple of the width, and a chunk is inside or outside (``valid``); ``SHIFTED``, chunks begin where memory is
aligned, so that the first and the last of a row hold elements of its neighbours (``inside`` is false there).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from aot.lower import rtcalls
from aot.lower.fast import bodies
from aot.lower.fast.places import VECTOR_BYTES, Extent, Place, Space
from aot.lower.fast.region import COLUMN, FULL, PART, Member, Node, Product, Region, Source

EXACT, MASKED, SHIFTED = "exact", "masked", "shifted"


@dataclass(eq=False)
class Chunk:
    """Some columns."""

    column: ir.Value
    """The first one; below 0 or behind the row's end in some modes."""
    position: ir.Value
    """Counted from where chunks begin: a multiple of the width."""
    valid: ir.Value | None = None
    """Whether any element is in the row; None: always."""
    inside: ir.Value | None = None
    """SHIFTED: whether all are."""
    memo: dict[object, list[ir.Value]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cache:
    """A source kept in shared memory, by position."""

    memory: ir.Value
    filling: bool
    """Whether this is the first pass over the row."""


@dataclass
class Evaluator:
    """Evaluates nodes for one row."""

    region: Region
    places: dict[Source, Place]
    space: Space
    width: int
    mode: str
    row: ir.Value
    shift: ir.Value | None = None
    """SHIFTED: columns by which the row's first chunk begins too early."""
    rows: dict[object, list[ir.Value]] = field(default_factory=dict)
    """Results of reductions, and other values that are one for each row."""
    caches: dict[Source, Cache] = field(default_factory=dict)

    def values(self, node: Node, chunk: Chunk) -> list[ir.Value]:
        """An element for each column of the chunk."""
        if not self.varies(node):
            return [self.row_value(node)] * self.width
        key: object = node if isinstance(node, Source) else (node.member, node.number)
        if key not in chunk.memo:
            if isinstance(node, Source):
                chunk.memo[key] = self._load(node, chunk)
            else:
                self._compute(node.member, chunk)
        return chunk.memo[key]

    def varies(self, node: Node) -> bool:
        """Whether columns have values of their own."""
        if isinstance(node, Product):
            return node.kind == FULL
        return node.kind in (FULL, COLUMN) or (
            node.kind == PART and any(loop >= len(self.region.rows) for loop in node.loops)
        )

    def row_value(self, node: Node) -> ir.Value:
        """A value that is the same for all columns."""
        if isinstance(node, Product):
            if node.member not in self.rows:
                self.rows[node.member] = self._element(node.member, [self._row_or_none(n) for n in node.member.nodes], None)
            return self.rows[node.member][node.number]
        if node not in self.rows:
            place = self.places[node]
            is_memory = isinstance(place.memory.type, ir.MemRefType)
            value = memref.LoadOp(place.memory, self._indices(place.loops, None)).result if is_memory else place.memory
            self.rows[node] = [value]
        return self.rows[node][0]

    def _row_or_none(self, node: Node | None) -> ir.Value | None:
        return None if node is None else self.row_value(node)

    def elements(self, member: Member, chunk: Chunk, number: int, wanted: Sequence[ir.Value]) -> list[ir.Value]:
        """Values of a member's body for one column of the chunk."""
        arguments = [None if node is None else self.values(node, chunk)[number] for node in member.nodes]
        column = _plus(chunk.column, number)
        return bodies.evaluate(member.operation.body, arguments, lambda loop: self._index(loop, column), wanted)

    def _compute(self, member: Member, chunk: Chunk) -> None:
        wanted = member.operation.yielded
        columns = [self.elements(member, chunk, number, wanted) for number in range(self.width)]
        for number in range(len(wanted)):
            chunk.memo[member, number] = [each[number] for each in columns]

    def _element(self, member: Member, arguments: Sequence[ir.Value | None], column: ir.Value | None) -> list[ir.Value]:
        body = member.operation.body
        return bodies.evaluate(body, arguments, lambda loop: self._index(loop, column), member.operation.yielded)

    def initial(self, member: Member) -> list[ir.Value]:
        """Running values of a reduction before its first element."""
        nodes = [member.nodes[number] for number in member.operation.outputs]
        return [self.row_value(node) for node in nodes if node is not None]

    def _index(self, loop: int, column: ir.Value | None) -> ir.Value:
        """The index of a loop; rows by division of the row's number."""
        rows = len(self.region.rows)
        if loop < rows:
            key = ("index", loop)
            if key not in self.rows:
                self.rows[key] = [_digit(self.row, loop, self.space.row_loops)]
            return self.rows[key][0]
        assert column is not None
        return _digit(column, loop - rows, self.space.column_loops)

    def _indices(self, loops: Sequence[int], column: ir.Value | None) -> list[ir.Value]:
        return [rtcalls.index(0) if loop < 0 else self._index(loop, column) for loop in loops]

    def prefetch(self, nodes: Sequence[Source], chunks: Sequence[Chunk]) -> None:
        """Begin all loads before anything waits for one."""
        for chunk in chunks:
            for node in nodes:
                self._raw(node, chunk)

    def _load(self, node: Source, chunk: Chunk) -> list[ir.Value]:
        return unpack(self._raw(node, chunk), self.width)

    def _raw(self, node: Source, chunk: Chunk) -> list[ir.Value]:
        """One vector, or elements."""
        key = ("raw", node)
        if key not in chunk.memo:
            cache = self.caches.get(node)
            if cache is not None and not cache.filling:
                chunk.memo[key] = [self._vector(cache.memory, [self._within(chunk)])]
            else:
                chunk.memo[key] = self._from_memory(self.places[node], chunk)
                if cache is not None:
                    self._keep(cache.memory, chunk, chunk.memo[key])
        return chunk.memo[key]

    def _within(self, chunk: Chunk) -> ir.Value:
        zero = rtcalls.index(0)
        return chunk.position if chunk.valid is None else arith.SelectOp(chunk.valid, chunk.position, zero).result

    def _keep(self, memory: ir.Value, chunk: Chunk, raw: Sequence[ir.Value]) -> None:
        with guard(chunk.valid):
            store_vector(pack(raw, self.width), memory, [chunk.position])

    def _from_memory(self, place: Place, chunk: Chunk) -> list[ir.Value]:
        if self.mode == SHIFTED:
            if place.wide and place.kind == FULL:
                return [self._shifted(place, chunk)]
            return self._clamped(place, chunk)
        column = chunk.column
        if chunk.valid is not None:
            column = arith.SelectOp(chunk.valid, column, rtcalls.index(0)).result
        if place.wide and self.width > 1:
            return [self._vector(place.memory, self.address(place, column))]
        return [self._scalar(place, _plus(column, number)) for number in range(self.width)]

    def address(self, place: Place, column: ir.Value) -> list[ir.Value]:
        """Indices of an element."""
        if not place.flat:
            return self._indices(place.loops, column)
        return [column] if place.kind == COLUMN else [self.row, column]

    def store_element(self, place: Place, column: ir.Value, value: ir.Value) -> None:
        """Store one element."""
        memref.StoreOp(value, place.memory, self.address(place, column))

    def _scalar(self, place: Place, column: ir.Value) -> ir.Value:
        return memref.LoadOp(place.memory, self.address(place, column)).result

    def _vector(self, memory: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        element = ir.MemRefType(memory.type).element_type
        return load_vector(memory, indices, self.width, element)

    def _shifted(self, place: Place, chunk: Chunk) -> ir.Value:
        """A vector that may begin before the row or end behind it: at the edges, element by element."""
        assert chunk.valid is not None and chunk.inside is not None and self.shift is not None
        true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
        plain = arith.OrIOp(chunk.inside, arith.XOrIOp(chunk.valid, true).result).result
        # A chunk outside reads the row's second one, which lies in it.
        second = arith.SubIOp(rtcalls.index(self.width), self.shift).result
        column = arith.SelectOp(chunk.valid, chunk.column, second).result
        choice = scf.IfOp(plain, [ir.VectorType.get([self.width], place.element)], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp([self._vector(place.memory, self.address(place, column))])
        with ir.InsertionPoint(choice.else_block):
            scf.YieldOp([pack(self._clamped(place, chunk), self.width)])
        return choice.results[0]

    def _clamped(self, place: Place, chunk: Chunk) -> list[ir.Value]:
        zero = rtcalls.index(0)
        last = arith.SubIOp(self.space.columns.value, rtcalls.index(1)).result
        found = []
        for number in range(self.width):
            column = arith.MaxSIOp(_plus(chunk.column, number), zero).result
            found.append(self._scalar(place, arith.MinSIOp(column, last).result))
        return found


def _digit(value: ir.Value, number: int, extents: Sequence[Extent]) -> ir.Value:
    """One index of several from their common number."""
    for extent in extents[:number:-1]:
        value = arith.DivUIOp(value, extent.value).result
    return arith.RemUIOp(value, extents[number].value).result if number else value


def _plus(value: ir.Value, number: int) -> ir.Value:
    return value if not number else arith.AddIOp(value, rtcalls.index(number)).result


@contextmanager
def guard(condition: ir.Value | None) -> Iterator[None]:
    """Insert under a condition; without one, as before."""
    if condition is None:
        yield
        return
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp([])
    with ir.InsertionPoint(end):
        yield


def pack(values: Sequence[ir.Value], width: int) -> ir.Value:
    """One vector of elements, or the vector itself."""
    if len(values) == 1 and isinstance(values[0].type, ir.VectorType):
        return values[0]
    assert len(values) == width
    return vector.FromElementsOp(ir.VectorType.get([width], values[0].type), list(values)).result


def unpack(values: Sequence[ir.Value], width: int) -> list[ir.Value]:
    """Elements of one vector, or the elements themselves."""
    if len(values) == 1 and isinstance(values[0].type, ir.VectorType):
        return [vector.ExtractOp(values[0], [], [number]).result for number in range(width)]
    return list(values)


def load_vector(memory: ir.Value, indices: Sequence[ir.Value], width: int, element: ir.Type) -> ir.Value:
    """An aligned vector, in pieces of at most 16 bytes."""
    pieces = max(1, width * rtcalls.storage_bytes(element) // VECTOR_BYTES)
    size = width // pieces
    kind = ir.VectorType.get([size], element)
    alignment = _alignment(size, element)
    loaded = [
        vector.LoadOp(kind, memory, [*indices[:-1], _plus(indices[-1], size * piece)], alignment=alignment).result
        for piece in range(pieces)
    ]
    if pieces == 1:
        return loaded[0]
    elements = [vector.ExtractOp(each, [], [number]).result for each in loaded for number in range(size)]
    return pack(elements, width)


def store_vector(value: ir.Value, memory: ir.Value, indices: Sequence[ir.Value]) -> None:
    """The same for stores."""
    kind = ir.VectorType(value.type)
    width, element = kind.shape[0], kind.element_type
    pieces = max(1, width * rtcalls.storage_bytes(element) // VECTOR_BYTES)
    size = width // pieces
    for piece in range(pieces):
        part = value
        if pieces > 1:
            part = pack([vector.ExtractOp(value, [], [size * piece + n]).result for n in range(size)], size)
        place = [*indices[:-1], _plus(indices[-1], size * piece)]
        vector.StoreOp(part, memory, place, alignment=_alignment(size, element))


def _alignment(size: int, element: ir.Type) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size * rtcalls.storage_bytes(element))
