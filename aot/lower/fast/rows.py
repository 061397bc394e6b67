"""The kernel of a region of rows: each row is read once, reduced by its threads, and written once.

In: a region, its places, and a tile. Out: a ``gpu.launch``.

``group`` threads work on a row, ``rows`` rows in a block. A thread holds ``vectors`` chunks of ``width`` columns; with
``keep`` = REGISTERS that is its part of the row, and the code is straight. With SHARED it loops, and keeps what later
passes need in shared memory; with MEMORY it reads again. A pass ends with each level of reductions; results are stored
in a last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls
from aot.lower.fast import bodies, exchange, rowstores
from aot.lower.fast.chunks import EXACT, SHIFTED, Cache, Chunk, Evaluator
from aot.lower.fast.exchange import Exchange
from aot.lower.fast.reducers import Reducer
from aot.lower.fast.region import FULL, Member, Node, Product, Source
from aot.lower.fast.rowjob import REGISTERS, SHARED, Job, Tile, cache_bytes, needed, passes, shared_bytes


def launch(job: Job, tile: Tile) -> ir.Operation:
    """Emit the kernel at the insertion point."""
    per_block = rtcalls.index(tile.rows)
    less = arith.AddIOp(job.space.rows.value, rtcalls.index(tile.rows - 1)).result
    blocks = arith.DivUIOp(less, per_block).result
    one = rtcalls.index(1)
    op = gpu.LaunchOp(
        (blocks, one, one), (rtcalls.index(tile.threads), one, one), dynamic_shared_memory_size=shared_bytes(job, tile)
    ).operation
    tile.mark(op, job.region)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        RowKernel(job, tile, body).emit()
    return op


@dataclass(frozen=True)
class Turns:
    """Which iterations of a loop over a row a block runs."""

    first: ir.Value
    step: ir.Value


@dataclass
class RowKernel:
    """The code of one kernel."""

    job: Job
    tile: Tile
    block: ir.Block
    chunks: list[Chunk] = field(default_factory=list)
    """Kept from pass to pass when the row is in registers."""

    def begin(self, row: ir.Value | None = None) -> None:
        """Find the thread's row and place, and what is one for the row; without a row given, by the block."""
        tile, region = self.tile, self.job.region
        thread = self.block.arguments[3]
        self.lane = thread if tile.rows == 1 else arith.RemUIOp(thread, rtcalls.index(tile.group)).result
        self.here: ir.Value | None = None
        if row is None:
            row, self.here = self._row(thread)
        shift = self._shift(row)
        self.code = Evaluator(region, self.job.places, self.job.space, tile.width, tile.mode, row, shift)
        needs_shared = tile.keep == SHARED or (tile.group > exchange.WARP and bool(region.reductions))
        shared = exchange.shared_memory() if needs_shared else None
        self.exchange = Exchange(tile.group, thread, shared)
        self.prepare(0)
        self._make_caches(shared)

    def emit(self) -> None:
        """All of the kernel."""
        region = self.job.region
        self.begin()
        levels = sorted({member.level for member in region.reductions})
        for each in levels:
            self._reduce([member for member in region.reductions if member.level == each])
            self.prepare(each)
            self._filled(each == levels[0])
        self.store_rows()
        full = [pair for pair in self.job.stores if pair[0].product.kind == FULL]
        if full:
            sources = self._columns_of([store.product for store, _ in full])
            self._pass(sources, lambda chunks: rowstores.columns(self.code, full, chunks, self.here))

    def _row(self, thread: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The thread's row, and whether there is such a row; behind the last one it works on that one."""
        tile = self.tile
        if tile.rows == 1:
            return self.block.arguments[0], None
        first = arith.MulIOp(self.block.arguments[0], rtcalls.index(tile.rows)).result
        row = arith.AddIOp(first, arith.DivUIOp(thread, rtcalls.index(tile.group)).result).result
        count = self.job.space.rows
        if count.static is not None and count.static % tile.rows == 0:
            return row, None
        here = arith.CmpIOp(arith.CmpIPredicate.ult, row, count.value).result
        last = arith.SubIOp(count.value, rtcalls.index(1)).result
        return arith.MinUIOp(row, last).result, here

    def _shift(self, row: ir.Value) -> ir.Value | None:
        if self.tile.mode != SHIFTED:
            return None
        begin = arith.MulIOp(row, self.job.space.columns.value).result
        return arith.AndIOp(begin, rtcalls.index(self.tile.width - 1)).result

    def prepare(self, known: int) -> None:
        """Compute what is one for each row, here, where all that follows can use it."""
        region, code = self.job.region, self.code
        if known == 0:
            for loop in range(len(region.rows)):
                code.index(loop, None)
            for source in region.sources():
                if not code.varies(source):
                    code.row_value(source)
        for member in region.members:
            if member.kind != FULL and member.reducer is None and member.level <= known:
                code.row_value(Product(member, 0))

    def _make_caches(self, shared: ir.Value | None) -> None:
        if self.tile.keep != SHARED or shared is None:
            return
        offset = rtcalls.index(self.job.scratch() if self.tile.group > exchange.WARP else 0)
        space = ir.Attribute.parse(exchange.SHARED)
        for source in self.job.cached():
            columns = arith.AddIOp(self.job.space.columns.value, rtcalls.index(2 * self.tile.width)).result
            count = arith.DivUIOp(columns, rtcalls.index(self.tile.width)).result
            vector = ir.VectorType.get([self.tile.width], self.job.places[source].element)
            kind = ir.MemRefType.get([rtcalls.DYNAMIC], vector, memory_space=space)
            view = memref.ViewOp(kind, shared, offset, [count]).result
            self.code.caches[source] = Cache(view, filling=True)
            offset = arith.AddIOp(offset, cache_bytes(self.job, source, self.tile)).result

    def _filled(self, first: bool) -> None:
        """What the first pass has read is in shared memory from now on."""
        if not first:
            return
        read = needed(passes(self.job.region)[0])
        for source, cache in self.code.caches.items():
            self.code.caches[source] = Cache(cache.memory, filling=source not in read)

    def _columns_of(self, nodes: Sequence[Node]) -> list[Source]:
        return [source for source in needed(nodes) if self.code.varies(source)]

    def _pass(self, sources: Sequence[Source], work: Callable[[list[Chunk]], None]) -> None:
        """Do something with all chunks of the row."""
        if self.tile.keep == REGISTERS:
            self.chunks = self.chunks or self._chunks(None)
            self.code.prefetch(sources, self.chunks)
            work(self.chunks)
            return
        loop = scf.ForOp(rtcalls.index(0), self._trips(), rtcalls.index(1))
        with ir.InsertionPoint(loop.body):
            end = scf.YieldOp([])
        with ir.InsertionPoint(end):
            chunks = self._chunks(loop.induction_variable)
            self.code.prefetch(sources, chunks)
            work(chunks)

    def _trips(self) -> ir.Value:
        """Iterations that reach the end of the longest row."""
        extra = self.tile.reach - 1 + (self.tile.width - 1 if self.tile.mode == SHIFTED else 0)
        total = arith.AddIOp(self.job.space.columns.value, rtcalls.index(extra)).result
        return arith.DivUIOp(total, rtcalls.index(self.tile.reach)).result

    def _chunks(self, turn: ir.Value | None) -> list[Chunk]:
        tile = self.tile
        first = arith.MulIOp(self.lane, rtcalls.index(tile.width)).result
        if turn is not None:
            first = arith.AddIOp(first, arith.MulIOp(turn, rtcalls.index(tile.reach)).result).result
        stride = tile.group * tile.width
        return [self._chunk(arith.AddIOp(first, rtcalls.index(k * stride)).result) for k in range(tile.vectors)]

    def _chunk(self, position: ir.Value) -> Chunk:
        columns = self.job.space.columns.value
        if self.tile.mode == EXACT:
            return Chunk(position, position)
        if self.tile.mode != SHIFTED:
            return Chunk(position, position, arith.CmpIOp(arith.CmpIPredicate.ult, position, columns).result)
        assert self.code.shift is not None
        column = arith.SubIOp(position, self.code.shift).result
        valid = arith.CmpIOp(arith.CmpIPredicate.slt, column, columns).result
        begins = arith.CmpIOp(arith.CmpIPredicate.sge, column, rtcalls.index(0)).result
        end = arith.SubIOp(columns, rtcalls.index(self.tile.width)).result
        ends = arith.CmpIOp(arith.CmpIPredicate.sle, column, end).result
        return Chunk(column, position, valid, arith.AndIOp(begins, ends).result)

    def _reduce(self, members: Sequence[Member]) -> None:
        """One pass for reductions of the same level."""
        starts = {member: self.code.initial(member) for member in members}
        running = self.partial(members, starts, Turns(rtcalls.index(0), rtcalls.index(1)))
        for member in members:
            size = len(starts[member])
            mine, running = running[:size], running[size:]
            done = self.exchange.all(reducer_of(member), mine)
            self.code.rows[member] = reducer_of(member).conclude(starts[member], done)

    def partial(self, members: Sequence[Member], starts: dict[Member, list[ir.Value]], turns: Turns) -> list[ir.Value]:
        """What the thread's own columns give, for all results of the members."""
        width = self.tile.width
        sources = self._columns_of([node for member in members for node in member.nodes if node is not None])
        spread = {member: [bodies.broadcast(value, width) for value in starts[member]] for member in members}
        running = []
        for member in members:
            neutral = reducer_of(member).neutral(starts[member])
            running += [bodies.broadcast(value, width) for value in neutral]
        if self.tile.keep == REGISTERS:
            self.chunks = self.chunks or self._chunks(None)
            self.code.prefetch(sources, self.chunks)
            running = self._accumulate(members, spread, self.chunks, running)
        else:
            loop = scf.ForOp(turns.first, self._trips(), turns.step, running)
            with ir.InsertionPoint(loop.body):
                chunks = self._chunks(loop.induction_variable)
                self.code.prefetch(sources, chunks)
                scf.YieldOp(self._accumulate(members, spread, chunks, list(loop.inner_iter_args)))
            running = list(loop.results)
        done: list[ir.Value] = []
        for member in members:
            size = len(starts[member])
            done += _joined(reducer_of(member), running[:size])
            running = running[size:]
        return done

    def _accumulate(
        self,
        members: Sequence[Member],
        starts: dict[Member, list[ir.Value]],
        chunks: Sequence[Chunk],
        running: list[ir.Value],
    ) -> list[ir.Value]:
        done: list[ir.Value] = []
        for member in members:
            size = len(starts[member])
            mine, running = running[:size], running[size:]
            for chunk in chunks:
                mine = self._one_chunk(member, starts[member], chunk, mine)
            done += mine
        return done

    def _one_chunk(
        self, member: Member, start: list[ir.Value], chunk: Chunk, running: list[ir.Value]
    ) -> list[ir.Value]:
        reducer = reducer_of(member)
        elements = reducer.admit(start, self.code.elements(member, chunk, reducer.elements))
        if chunk.valid is None:
            return reducer.combine(running, elements)
        if chunk.inside is None:
            return _chosen(chunk.valid, reducer.combine(running, elements), running)
        choice = scf.IfOp(chunk.inside, [value.type for value in running], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.YieldOp(reducer.combine(running, elements))
        with ir.InsertionPoint(choice.else_block):
            mask = self._mask(chunk)
            scf.YieldOp(_chosen(mask, reducer.combine(running, elements), running))
        return list(choice.results)

    def _mask(self, chunk: Chunk) -> ir.Value:
        """Which columns of the chunk are in the row. As unsigned numbers, those before it are large."""
        columns = bodies.broadcast(self.job.space.columns.value, self.tile.width)
        return arith.CmpIOp(arith.CmpIPredicate.ult, bodies.steps(chunk.column, self.tile.width), columns).result

    def store_rows(self) -> None:
        """One thread of the row stores what is one for the row."""
        rowstores.rows(self.job, self.code, self.lane, self.here)


def reducer_of(member: Member) -> Reducer:
    assert member.reducer is not None
    return member.reducer


def _chosen(condition: ir.Value, new: Sequence[ir.Value], old: Sequence[ir.Value]) -> list[ir.Value]:
    return [arith.SelectOp(condition, a, b).result for a, b in zip(new, old, strict=True)]


def _joined(reducer: Reducer, running: Sequence[ir.Value]) -> list[ir.Value]:
    """One result from the elements of vectors: pairs, then pairs of pairs."""
    apart = [bodies.unpack(value) for value in running]
    partial = [list(each) for each in zip(*apart, strict=True)]
    while len(partial) > 1:
        half = len(partial) // 2
        paired = [reducer.combine(one, other) for one, other in zip(partial[:half], partial[half:], strict=False)]
        partial = paired + partial[2 * half :]
    return partial[0]
