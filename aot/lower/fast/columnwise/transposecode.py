"""The code of kernels that turn tiles of permuted operands.

In: the operands by the loop that their memory runs along, a tile, a block. Out: its code. ``m`` is the result's
innermost loop, ``n`` that of the permuted operands; the body runs where the result is written.

Without vectors, tiles that lie inside have code of their own, without masks: there, instructions are what takes time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.fast.region import Member, Source
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import load_vector, store_vector
from aot.lower.fast.regions.division import Divisor
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise import exchange
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

_WORD = 4
_LINE = 16
"""Bytes of a group of words, and of an access."""


@dataclass(frozen=True)
class Tile:
    """``size`` x ``size`` elements, ``width`` at a time, by ``threads`` threads."""

    size: int
    threads: int
    width: int


@dataclass(frozen=True)
class Turned:
    """The region, by loops."""

    member: Member
    moved: dict[Source, Place]
    """Operands that run along ``n``."""
    others: dict[Source, Place]
    result: Place
    extents: tuple[ir.Value, ...]

    @property
    def inner(self) -> int:
        """The loop ``n``."""
        return next(iter(self.moved)).loops[-1]

    def shared_bytes(self, tile: Tile) -> int:
        """Of a tile of each moved operand."""
        return sum(self.tile_bytes(place, tile) for place in self.moved.values())

    @staticmethod
    def tile_bytes(place: Place, tile: Tile) -> int:
        """Of one tile; narrow ones are padded by an element in each row."""
        size = tile.size * (tile.size + (tile.width == 1)) * max(rtcalls.storage_bytes(place.element), 1)
        return -(-size // _LINE) * _LINE


@dataclass(frozen=True)
class _Point:
    """Where a thread reads or writes; outside, the first element is read instead."""

    n: ir.Value
    m: ir.Value
    inside: ir.Value | None
    """None: always."""


@dataclass
class TransposeCode:
    """The code of one kernel."""

    turned: Turned
    tile: Tile
    block: ir.Block
    counts: Sequence[Divisor]
    """Tiles along ``n`` and ``m``, and extents of the other loops, but for the last of them."""

    def emit(self) -> None:
        """All of the kernel."""
        tile = self.tile
        thread, across = self.block.arguments[3], rtcalls.index(tile.size // tile.width)
        self.x, self.y = arith.RemUIOp(thread, across).result, arith.DivUIOp(thread, across).result
        self.along = arith.MulIOp(self.x, rtcalls.index(tile.width)).result
        self._find_tile()
        if tile.width > 1:
            self._turn(whole=False)
            return
        branches.either(self._is_whole(), lambda: self._turn(whole=True), lambda: self._turn(whole=False))

    def _is_whole(self) -> ir.Value:
        """Whether all of the tile lies inside; the same for all threads."""
        size, found = rtcalls.index(self.tile.size), []
        for first, most in ((self.n0, self.most_n), (self.m0, self.most_m)):
            found.append(arith.CmpIOp(arith.CmpIPredicate.ule, _sum(first, size), most).result)
        return arith.AndIOp(*found).result

    def _turn(self, *, whole: bool) -> None:
        """Read everything, wait, write."""
        self.whole = whole
        rows = self._steps(self.tile.size)
        points = [self._point(_sum(self.n0, row), _sum(self.m0, self.along)) for row in rows]
        loaded = [self._read(place) for place in self.turned.moved.values()]
        others = [{source: self._other(place, at) for source, place in self.turned.others.items()} for at in points]
        kept = [self._keep(*each) for each in zip(self.turned.moved.values(), self._offsets(), loaded, strict=True)]
        gpu.BarrierOp()
        for row, at, values in zip(rows, points, others, strict=True):
            moved = {source: self._taken(memory, row) for source, memory in zip(self.turned.moved, kept, strict=True)}
            result = self._computed({**moved, **values})
            with branches.guard(at.inside):
                self._store(result, self._at(self.turned.result, at.n, at.m))

    def _find_tile(self) -> None:
        """The tile's place in every loop, from the block's number; neighbours share lines of the source."""
        digits = [self.block.arguments[0]]
        for count in self.counts:
            quotient = count.quotient(digits[-1])
            whole = arith.MulIOp(quotient, count.extent).result
            digits[-1:] = [arith.SubIOp(digits[-1], whole).result, quotient]
        size, extents, inner = rtcalls.index(self.tile.size), self.turned.extents, self.turned.inner
        self.n0, self.m0 = (arith.MulIOp(digit, size).result for digit in digits[:2])
        outer = [loop for loop in range(len(extents)) if loop not in (inner, len(extents) - 1)]
        self.outer = dict(zip(outer, digits[2:], strict=True))
        self.most_n, self.most_m = extents[inner], extents[-1]

    def _steps(self, count: int) -> list[ir.Value]:
        """The thread's rows, of so many."""
        below = self.tile.threads * self.tile.width // self.tile.size
        return [bodies.plus(self.y, step) for step in range(0, count, below)]

    def _at(self, place: Place, n: ir.Value, m: ir.Value) -> list[ir.Value]:
        loops = {**self.outer, self.turned.inner: n, len(self.turned.extents) - 1: m}
        return [rtcalls.index(0) if loop < 0 else loops[loop] for loop in place.loops]

    def _point(self, n: ir.Value, m: ir.Value) -> _Point:
        if self.whole:
            return _Point(n, m, None)
        left = arith.CmpIOp(arith.CmpIPredicate.ult, n, self.most_n).result
        right = arith.CmpIOp(arith.CmpIPredicate.ult, m, self.most_m).result
        return _Point(n, m, arith.AndIOp(left, right).result)

    def _load(self, place: Place, at: _Point, width: int) -> ir.Value:
        """A vector, or an element, which is the first one outside."""
        indices = self._at(place, at.n, at.m)
        if at.inside is not None:
            zero = rtcalls.index(0)
            indices = self._at(place, *(arith.SelectOp(at.inside, each, zero).result for each in (at.n, at.m)))
        if width == 1:
            return memref.LoadOp(place.memory, indices).result
        return load_vector(place.memory, indices, width, place.element)

    def _other(self, place: Place, at: _Point) -> ir.Value:
        """What an operand that is not moved has for the elements of a vector of the result."""
        if not isinstance(place.memory.type, ir.MemRefType):
            return place.memory
        last, width = len(self.turned.extents) - 1, self.tile.width
        if last not in place.loops:
            return self._load(place, at, 1)
        if place.wide and place.loops[-1] == last:
            return self._load(place, at, width)
        apart = [_Point(at.n, bodies.plus(at.m, number), at.inside) for number in range(width)]
        return bodies.pack([self._load(place, each, 1) for each in apart])

    def _read(self, place: Place) -> list[list[ir.Value]]:
        """Vectors along ``n``: for each of the thread's turns those of the rows that share words."""
        together = _together(place, self.tile)
        found = []
        for step in self._steps(self.tile.size // together):
            m = _sum(self.m0, arith.MulIOp(step, rtcalls.index(together)).result)
            points = [self._point(_sum(self.n0, self.along), bodies.plus(m, number)) for number in range(together)]
            found.append([self._load(place, at, self.tile.width) for at in points])
        return found

    def _offsets(self) -> list[int]:
        """Where each operand's tile begins."""
        sizes = [self.turned.tile_bytes(place, self.tile) for place in self.turned.moved.values()]
        return [sum(sizes[:number]) for number in range(len(sizes))]

    def _keep(self, place: Place, offset: int, loaded: list[list[ir.Value]]) -> ir.Value:
        """Put what was read into shared memory; a view of it for reading."""
        tile, together = self.tile, _together(place, self.tile)
        if tile.width == 1:
            kept = _shared(place.element, [tile.size, tile.size + 1], offset)
            for step, (value,) in zip(self._steps(tile.size), loaded, strict=True):
                memref.StoreOp(value, kept, [step, self.x])
            return kept
        word = place.element if together == 1 else ir.VectorType.get([together], place.element)
        words = _shared(word, [tile.size * tile.size // together], offset)
        for step, vectors in zip(self._steps(tile.size // together), loaded, strict=True):
            for number, each in enumerate(zip(*map(bodies.unpack, vectors), strict=True)):
                line = self._line(bodies.plus(self.along, number), arith.DivUIOp(step, rtcalls.index(_WORD)).result)
                first = arith.MulIOp(line, rtcalls.index(_WORD)).result
                at = _sum(first, arith.RemUIOp(step, rtcalls.index(_WORD)).result)
                memref.StoreOp(bodies.pack(list(each)), words, [at])
        return _shared(ir.VectorType.get([tile.width], place.element), [tile.size * tile.size // tile.width], offset)

    def _line(self, n: ir.Value, group: ir.Value) -> ir.Value:
        """Where a group of four words of a row lies."""
        groups = self.tile.size // self.tile.width
        mixed = arith.XOrIOp(arith.DivUIOp(n, rtcalls.index(self.tile.width)).result, n).result
        swapped = arith.XOrIOp(group, arith.AndIOp(mixed, rtcalls.index(groups - 1)).result).result
        return _sum(arith.MulIOp(n, rtcalls.index(groups)).result, swapped)

    def _taken(self, kept: ir.Value, row: ir.Value) -> ir.Value:
        """Elements along ``m``."""
        if self.tile.width == 1:
            return memref.LoadOp(kept, [self.x, row]).result
        return memref.LoadOp(kept, [self._line(row, self.x)]).result

    def _computed(self, values: dict[Source, ir.Value]) -> ir.Value:
        member, width = self.turned.member, self.tile.width
        arguments = [values[node] if isinstance(node, Source) else None for node in member.nodes]
        body, wanted = member.operation.body, member.operation.yielded
        if width == 1:
            return bodies.evaluate(body, arguments, _no_index, wanted)[0]
        if bodies.is_vectorial(body, wanted):
            return bodies.evaluate_vector(body, arguments, _no_index, wanted, width)[0]
        apart = [None if each is None else _elements(each, width) for each in arguments]
        made = []
        for number in range(width):
            mine = [None if each is None else each[number] for each in apart]
            made.append(bodies.evaluate(body, mine, _no_index, wanted)[0])
        return bodies.pack(made)

    def _store(self, value: ir.Value, indices: list[ir.Value]) -> None:
        if isinstance(value.type, ir.VectorType):
            store_vector(value, self.turned.result.memory, indices)
        else:
            memref.StoreOp(value, self.turned.result.memory, indices)


def _together(place: Place, tile: Tile) -> int:
    """Rows of the source that share a word."""
    return 1 if tile.width == 1 else _WORD // rtcalls.storage_bytes(place.element)


def _shared(kind: ir.Type, shape: Sequence[int], offset: int) -> ir.Value:
    space = ir.Attribute.parse(exchange.SHARED)
    view = ir.MemRefType.get(list(shape), kind, memory_space=space)
    return memref.ViewOp(view, exchange.shared_memory(), rtcalls.index(offset), []).result


def _elements(value: ir.Value, width: int) -> list[ir.Value]:
    return bodies.unpack(value) if isinstance(value.type, ir.VectorType) else [value] * width


def _no_index(loop: int) -> ir.Value:
    raise AssertionError(f"the body asks for loop {loop}")


def _sum(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.AddIOp(one, other).result
