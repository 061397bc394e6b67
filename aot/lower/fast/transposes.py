"""The kernel of a permutation that changes the innermost dimension: tiles through shared memory.

In: a region of one operation that reads one permuted operand, and its places. Out: a ``gpu.launch``.

A block reads a tile along the source's innermost loop and writes it along the result's. With vectors both sides are
16-byte accesses; shared memory holds 32-bit words, two rows of 16-bit elements in one word, and groups of four words
are permuted by their row so that neither side meets a bank twice. Without, elements go through a padded tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.fast import bodies, exchange, places
from aot.lower.fast.chunks import guard, load_vector, store_vector
from aot.lower.fast.places import Place
from aot.lower.fast.region import FULL, PART, SCALAR, Region, Source
from aot.lower.fast.rowjob import Job

_WORD = 4


@dataclass(frozen=True)
class Tile:
    """``size`` x ``size`` elements, ``width`` at a time, by ``threads`` threads."""

    size: int
    threads: int
    width: int

    def mark(self, launch: ir.Operation, region: Region) -> None:
        """Say on a launch that it has this tile."""
        tiling.mark(launch, "transposes", region.number, "transpose", vars(self))


_WIDE = {2: Tile(128, 512, 8), 4: Tile(64, 256, 4)}
"""By bytes of the elements."""
_NARROW = Tile(32, 256, 1)


def matches(region: Region) -> bool:
    """Whether the region is one permuted operand and a body."""
    if region.reductions or len(region.members) != 1 or len(region.stores) != 1:
        return False
    rank = len(region.rows) + len(region.columns)
    moved = [source for source in region.sources() if source.kind == PART]
    rest = [source for source in region.sources() if source.kind not in (PART, SCALAR)]
    body = region.members[0].operation.body
    asks = any(op.operation.name == "linalg.index" for op in body.operations)
    return len(moved) == 1 and not rest and not asks and sorted(moved[0].loops) == list(range(rank))


def launch(job: Job) -> None:
    """Emit the kernels at the insertion point; with vectors where they are aligned."""
    store = job.stores[0][1]
    source = _moved(job)
    size = rtcalls.storage_bytes(store.element)
    tile = _WIDE.get(size)
    plain = places.is_plain(source.memory) and places.is_plain(_result(job).memory)
    if tile is None or not plain or not places.is_wide(store.element) or not places.is_wide(source.element):
        _kernel(job, _NARROW)
        return
    branch = scf.IfOp(_fits(job, tile), has_else=True)
    with ir.InsertionPoint(branch.then_block):
        _kernel(job, tile)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _kernel(job, _NARROW)
        scf.YieldOp([])


def _moved(job: Job) -> Place:
    return next(place for source, place in job.places.items() if source.kind == PART)


def _result(job: Job) -> Place:
    """The result with an index for each loop, not as rows and columns."""
    store, place = job.stores[0]
    return Place(store.memory, FULL, store.loops, flat=False, wide=place.wide)


def _extents(job: Job) -> list[ir.Value]:
    return [each.value for each in (*job.space.row_loops, *job.space.column_loops)]


def _fits(job: Job, tile: Tile) -> ir.Value:
    """Whether both innermost extents are whole vectors, and memory is aligned."""
    source, result, extents = _moved(job), _result(job), _extents(job)
    both = arith.OrIOp(extents[source.loops[-1]], extents[-1]).result
    rest = arith.AndIOp(both, rtcalls.index(tile.width - 1)).result
    whole = arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result
    return arith.AndIOp(whole, places.aligned([source, result])).result


def _kernel(job: Job, tile: Tile) -> None:
    source, extents, one = _moved(job), _extents(job), rtcalls.index(1)
    size = rtcalls.index(tile.size)
    inner = source.loops[-1]
    tiles = [arith.CeilDivUIOp(extents[loop], size).result for loop in (inner, len(extents) - 1)]
    counts = [*tiles, *(extent for loop, extent in enumerate(extents) if loop not in (inner, len(extents) - 1))]
    blocks = counts[0]
    for count in counts[1:]:
        blocks = arith.MulIOp(blocks, count).result
    bytes_ = tile.size * (tile.size + (tile.width == 1)) * max(rtcalls.storage_bytes(job.stores[0][1].element), 1)
    shared = arith.ConstantOp(ir.IntegerType.get_signless(32), bytes_).result
    op = gpu.LaunchOp(
        (blocks, one, one), (rtcalls.index(tile.threads), one, one), dynamic_shared_memory_size=shared
    ).operation
    tile.mark(op, job.region)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        _Code(job, tile, body, counts, extents).emit()


@dataclass
class _Code:
    """The code of one kernel. ``m`` is the result's innermost loop, ``n`` the source's."""

    job: Job
    tile: Tile
    block: ir.Block
    counts: Sequence[ir.Value]
    extents: Sequence[ir.Value]

    def emit(self) -> None:
        self.source, self.result = _moved(self.job), _result(self.job)
        self.element = self.job.stores[0][1].element
        self.inner = self.source.loops[-1]
        self.thread = self.block.arguments[3]
        self._find_tile()
        if self.tile.width == 1:
            self._elements()
        elif rtcalls.storage_bytes(self.element) == _WORD:
            self._words()
        else:
            self._pairs()

    def _find_tile(self) -> None:
        """The tile's place in every loop, from the block's number; neighbours share lines of the source."""
        word, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
        rest = arith.IndexCastUIOp(word, self.block.arguments[0]).result
        digits = []
        for count in self.counts:
            by = arith.IndexCastUIOp(word, count).result
            digits.append(arith.IndexCastUIOp(index, arith.RemUIOp(rest, by).result).result)
            rest = arith.DivUIOp(rest, by).result
        size = rtcalls.index(self.tile.size)
        self.n0, self.m0 = (arith.MulIOp(digit, size).result for digit in digits[:2])
        outer = [loop for loop in range(len(self.extents)) if loop not in (self.inner, len(self.extents) - 1)]
        self.outer = dict(zip(outer, digits[2:], strict=True))
        self.most_n, self.most_m = self.extents[self.inner], self.extents[-1]

    def _at(self, place: Place, n: ir.Value, m: ir.Value) -> list[ir.Value]:
        loops = {**self.outer, self.inner: n, len(self.extents) - 1: m}
        return [rtcalls.index(0) if loop < 0 else loops[loop] for loop in place.loops]

    def _is_inside(self, n: ir.Value, m: ir.Value) -> ir.Value:
        left = arith.CmpIOp(arith.CmpIPredicate.ult, n, self.most_n).result
        right = arith.CmpIOp(arith.CmpIPredicate.ult, m, self.most_m).result
        return arith.AndIOp(left, right).result

    def _loaded(self, n: ir.Value, m: ir.Value) -> ir.Value:
        """What the body makes of a vector along ``n``; outside, of one that is there."""
        inside, zero = self._is_inside(n, m), rtcalls.index(0)
        at = self._at(self.source, *(arith.SelectOp(inside, each, zero).result for each in (n, m)))
        if self.tile.width == 1:
            value = memref.LoadOp(self.source.memory, at).result
        else:
            value = load_vector(self.source.memory, at, self.tile.width, self.source.element)
        return self._computed(value)

    def _computed(self, value: ir.Value) -> ir.Value:
        member = self.job.region.members[0]
        width = self.tile.width
        arguments: list[ir.Value | None] = []
        for node in member.nodes:
            if not isinstance(node, Source):
                arguments.append(None)
            elif node.kind == PART:
                arguments.append(value)
            else:
                place = self.job.places[node]
                is_memory = isinstance(place.memory.type, ir.MemRefType)
                at = [rtcalls.index(0)] * len(place.loops)
                one = memref.LoadOp(place.memory, at).result if is_memory else place.memory
                arguments.append(bodies.broadcast(one, width))
        body, wanted = member.operation.body, member.operation.yielded
        if width == 1:
            return bodies.evaluate(body, arguments, lambda loop: self.n0, wanted)[0]
        if bodies.is_vectorial(body, wanted):
            return bodies.evaluate_vector(body, arguments, lambda loop: self.n0, wanted, width)[0]
        apart = [None if each is None else bodies.unpack(each) for each in arguments]
        made = []
        for number in range(width):
            mine = [None if each is None else each[number] for each in apart]
            made.append(bodies.evaluate(body, mine, lambda loop: self.n0, wanted)[0])
        return bodies.pack(made)

    def _shared(self, kind: ir.Type, shape: Sequence[int]) -> ir.Value:
        space = ir.Attribute.parse(exchange.SHARED)
        view = ir.MemRefType.get(list(shape), kind, memory_space=space)
        return memref.ViewOp(view, exchange.shared_memory(), rtcalls.index(0), []).result

    def _split(self, by: int) -> tuple[ir.Value, ir.Value]:
        number = rtcalls.index(by)
        return arith.RemUIOp(self.thread, number).result, arith.DivUIOp(self.thread, number).result

    def _elements(self) -> None:
        tile = self.tile
        kept = self._shared(self.element, [tile.size, tile.size + 1])
        x, y = self._split(tile.size)
        turns = [bodies.plus(y, step) for step in range(0, tile.size, tile.threads // tile.size)]
        values = [self._loaded(_sum(self.n0, x), _sum(self.m0, turn)) for turn in turns]
        for turn, value in zip(turns, values, strict=True):
            memref.StoreOp(value, kept, [turn, x])
        gpu.BarrierOp()
        for turn in turns:
            n, m = _sum(self.n0, turn), _sum(self.m0, x)
            with guard(self._is_inside(n, m)):
                memref.StoreOp(memref.LoadOp(kept, [x, turn]).result, self.result.memory, self._at(self.result, n, m))

    def _place(self, n: ir.Value, group: ir.Value) -> ir.Value:
        """Where a group of four words of a row lies."""
        groups = self._words_of_row() // _WORD
        mixed = arith.XOrIOp(arith.DivUIOp(n, rtcalls.index(8)).result, n).result
        swapped = arith.XOrIOp(group, arith.AndIOp(mixed, rtcalls.index(groups - 1)).result).result
        return _sum(arith.MulIOp(n, rtcalls.index(groups)).result, swapped)

    def _words_of_row(self) -> int:
        return self.tile.size * rtcalls.storage_bytes(self.element) // _WORD

    def _put(self, kept: ir.Value, value: ir.Value, n: ir.Value, word: ir.Value) -> None:
        group = self._place(n, arith.DivUIOp(word, rtcalls.index(_WORD)).result)
        at = _sum(arith.MulIOp(group, rtcalls.index(_WORD)).result, arith.RemUIOp(word, rtcalls.index(_WORD)).result)
        memref.StoreOp(value, kept, [at])

    def _pairs(self) -> None:
        """Elements of 16 bits: a word is a pair of rows of the source."""
        tile, rows = self.tile, self.tile.size // 2
        across = tile.size // tile.width
        x, y = self._split(across)
        n = arith.MulIOp(x, rtcalls.index(tile.width)).result
        pairs = [bodies.plus(y, step) for step in range(0, rows, tile.threads // across)]
        loaded = []
        for pair in pairs:
            m = _sum(self.m0, arith.MulIOp(pair, rtcalls.index(2)).result)
            loaded.append([self._loaded(_sum(self.n0, n), bodies.plus(m, number)) for number in (0, 1)])
        kept = self._shared(ir.VectorType.get([2], self.element), [tile.size * rows])
        for pair, (upper, lower) in zip(pairs, loaded, strict=True):
            both = zip(bodies.unpack(upper), bodies.unpack(lower), strict=True)
            for number, words in enumerate(both):
                self._put(kept, bodies.pack(list(words)), bodies.plus(n, number), pair)
        self._write()

    def _words(self) -> None:
        """Elements of 32 bits: a word each."""
        tile = self.tile
        across = tile.size // tile.width
        x, y = self._split(across)
        n = arith.MulIOp(x, rtcalls.index(tile.width)).result
        rows = [bodies.plus(y, step) for step in range(0, tile.size, tile.threads // across)]
        loaded = [self._loaded(_sum(self.n0, n), _sum(self.m0, row)) for row in rows]
        kept = self._shared(self.element, [tile.size * tile.size])
        for row, value in zip(rows, loaded, strict=True):
            for number, element in enumerate(bodies.unpack(value)):
                self._put(kept, element, bodies.plus(n, number), row)
        self._write()

    def _write(self) -> None:
        gpu.BarrierOp()
        tile = self.tile
        across = tile.size // tile.width
        x, y = self._split(across)
        groups = tile.size * self._words_of_row() // _WORD
        kept = self._shared(ir.VectorType.get([tile.width], self.element), [groups])
        for step in range(0, tile.size, tile.threads // across):
            row = bodies.plus(y, step)
            value = memref.LoadOp(kept, [self._place(row, x)]).result
            n = _sum(self.n0, row)
            m = _sum(self.m0, arith.MulIOp(x, rtcalls.index(tile.width)).result)
            with guard(self._is_inside(n, m)):
                store_vector(value, self.result.memory, self._at(self.result, n, m))


def _sum(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.AddIOp(one, other).result
