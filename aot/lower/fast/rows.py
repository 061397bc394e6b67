"""The kernel of a region of rows: each row is read once, reduced by its threads, and written once.

In: a region, its places, and a tile. Out: a ``gpu.launch``.

``group`` threads work on a row, ``rows`` rows in a block. A thread holds ``vectors`` chunks of ``width`` columns; with
``keep`` = REGISTERS that is its part of the row, and the code is straight. With SHARED it loops over a copy of the row
in shared memory; with MEMORY it reads again. A pass ends with each level of reductions; results are stored in a last
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower import rtcalls
from aot.lower.fast import bodies, exchange, rowcopy, rowstores
from aot.lower.fast.chunks import SHIFTED, Chunk, Evaluator
from aot.lower.fast.exchange import Exchange
from aot.lower.fast.reducers import Reducer
from aot.lower.fast.region import FULL, Member, Node, Product, Source
from aot.lower.fast.rowchunks import Deal
from aot.lower.fast.rowjob import REGISTERS, SHARED, Job, Tile, needed, shared_bytes, threads

_BLOCK_SIZE = 9
"""Of the arguments of a launch's body: threads along x."""


def launch(job: Job, tile: Tile) -> ir.Operation:
    """Emit the kernel at the insertion point."""
    per_block = rtcalls.index(tile.rows)
    less = arith.AddIOp(job.space.rows.value, rtcalls.index(tile.rows - 1)).result
    blocks = arith.DivUIOp(less, per_block).result
    one = rtcalls.index(1)
    op = gpu.LaunchOp(
        (blocks, one, one), (threads(job, tile), one, one), dynamic_shared_memory_size=shared_bytes(job, tile)
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
        threads = self.block.arguments[_BLOCK_SIZE] if tile.flexible else rtcalls.index(tile.group)
        self.deal = Deal(tile, self.code, self.lane, threads)
        needs_shared = tile.keep == SHARED or (tile.group > exchange.WARP and bool(region.reductions))
        shared = exchange.shared_memory() if needs_shared else None
        self.exchange = Exchange(tile.group, thread, shared, threads if tile.flexible else None)
        self.prepare(0)
        if tile.keep == SHARED and shared is not None:
            rowcopy.fill(self.code, rowcopy.make(self.job, tile, shared), self._each_chunk)

    def emit(self) -> None:
        """All of the kernel."""
        region = self.job.region
        self.begin()
        levels = sorted({member.level for member in region.reductions})
        for each in levels:
            self._reduce([member for member in region.reductions if member.level == each])
            self.prepare(each)
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

    def _columns_of(self, nodes: Sequence[Node]) -> list[Source]:
        return [source for source in needed(nodes) if self.code.varies(source)]

    def _each_chunk(self, work: Callable[[Chunk], None]) -> None:
        """Do something with each chunk of a row that one turn does not reach."""

        def each(chunks: list[Chunk]) -> None:
            for chunk in chunks:
                work(chunk)

        self._loop(each)

    def _loop(self, work: Callable[[list[Chunk]], None]) -> None:
        loop = scf.ForOp(rtcalls.index(0), self.deal.turns(), rtcalls.index(1))
        with ir.InsertionPoint(loop.body):
            end = scf.YieldOp([])
        with ir.InsertionPoint(end):
            work(self.deal.chunks(loop.induction_variable))

    def _pass(self, sources: Sequence[Source], work: Callable[[list[Chunk]], None]) -> None:
        """Do something with all chunks of the row."""
        if self.tile.keep == REGISTERS:
            self.chunks = self.chunks or self.deal.chunks(None)
            self.code.prefetch(sources, self.chunks)
            work(self.chunks)
            return

        def prefetched(chunks: list[Chunk]) -> None:
            self.code.prefetch(sources, chunks)
            work(chunks)

        self._loop(prefetched)

    def _reduce(self, members: Sequence[Member]) -> None:
        """One pass for reductions of the same level."""
        starts = {member: self.code.initial(member) for member in members}
        running = self.partial(members, starts, Turns(rtcalls.index(0), rtcalls.index(1)))
        for member in members:
            size = len(starts[member])
            mine, running = running[:size], running[size:]
            done = self.exchange.all(reducer_of(member), mine, reducer_of(member).neutral(starts[member]))
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
            self.chunks = self.chunks or self.deal.chunks(None)
            self.code.prefetch(sources, self.chunks)
            running = self._accumulate(members, spread, self.chunks, running)
        else:
            loop = scf.ForOp(turns.first, self.deal.turns(), turns.step, running)
            with ir.InsertionPoint(loop.body):
                chunks = self.deal.chunks(loop.induction_variable)
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
            mask = self.deal.mask(chunk)
            scf.YieldOp(_chosen(mask, reducer.combine(running, elements), running))
        return list(choice.results)

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
