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
from mlir.dialects import arith, gpu, memref

from aot.lower.fast.region import COLUMN, FULL, Member, Node, Product, Source
from aot.lower.fast.regions.reducers import equal
from aot.lower.fast.rowwise import exchange, rowchunks, rowcopy, rowstores
from aot.lower.fast.rowwise.chunks import MASKED, SHIFTED, Chunk, Evaluator
from aot.lower.fast.rowwise.clusterexchange import ClusterExchange
from aot.lower.fast.rowwise.exchange import Exchange
from aot.lower.fast.rowwise.rowchunks import Part, Work
from aot.lower.fast.rowwise.rowjob import REGISTERS, SHARED, Job, Tile, needed, shared_bytes, threads
from aot.lower.fast.rowwise.tallies import Earlier, Found, Tally, joined, tally
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches
from aot.targets.arch import WARP

_BLOCK_SIZE = 9
"""Of the arguments of a launch's body: threads along x."""


def launch(job: Job, tile: Tile) -> ir.Operation:
    """Emit the kernel at the insertion point."""
    one = rtcalls.index(1)
    size = (threads(job, tile), one, one)
    op = gpu.LaunchOp((_blocks(job, tile), one, one), size, dynamic_shared_memory_size=shared_bytes(job, tile))
    op = op.operation
    tile.mark(op, job.region)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        RowKernel(job, tile, body).emit()
    return op


def _blocks(job: Job, tile: Tile) -> ir.Value:
    rows = job.space.rows.value
    if tile.cluster > 1:
        return arith.MulIOp(rows, rtcalls.index(tile.cluster)).result
    return arith.CeilDivUIOp(rows, rtcalls.index(tile.rows)).result


class Edge:
    """The columns around the aligned vectors of a row: one for some threads, read once, at the beginning."""

    def __init__(self, inner: Evaluator, chunk: Chunk) -> None:
        self.code = Evaluator(inner.region, inner.places, inner.space, 1, MASKED, inner.row, rows=inner.rows)
        self.chunk = chunk
        self.code.prefetch([source for source in inner.region.sources() if inner.varies(source)], [chunk])


@dataclass
class RowKernel:
    """The code of one kernel."""

    job: Job
    tile: Tile
    block: ir.Block
    chunks: list[Chunk] = field(default_factory=list)
    """Kept from pass to pass when the row is in registers."""

    def begin(self, row: ir.Value | None = None, part: Part | None = None) -> None:
        """Find the thread's row and place, and what is one for the row; without a row given, by the block."""
        tile, job, thread = self.tile, self.job, self.block.arguments[3]
        group = self.block.arguments[_BLOCK_SIZE] if tile.flexible else rtcalls.index(tile.group)
        self.lane = thread if tile.rows == 1 else arith.RemUIOp(thread, group).result
        self.here: ir.Value | None = None
        if row is None and tile.cluster > 1:
            block, blocks = self.block.arguments[0], rtcalls.index(tile.cluster)
            row, part = arith.DivUIOp(block, blocks).result, Part(arith.RemUIOp(block, blocks).result, blocks)
        elif row is None:
            row, self.here = self._row(thread, group)
        shifted = tile.mode == SHIFTED
        head = rowchunks.head(row, job.space.columns.value, tile.width) if shifted else None
        self.code = Evaluator(job.region, job.places, job.space, tile.width, tile.mode, row, head)
        self.deal = rowchunks.deal(tile, self.code, self.lane, group, part)
        needs_shared = tile.keep == SHARED or (tile.group > WARP and bool(job.region.reductions))
        shared = exchange.shared_memory() if needs_shared else None
        cluster = self._cluster(part, thread, shared)
        self.exchange = Exchange(tile.group, thread, shared, group if tile.flexible else None, cluster)
        self.prepare(0)
        self.edge = Edge(self.code, self.deal.edge()) if shifted else None
        if tile.keep == SHARED and shared is not None:
            rowcopy.start(self.deal, rowcopy.make(job, tile, shared))
            if tile.cluster > 1:
                rowcopy.fetch(self.deal, self._columns())
            rowcopy.wait()

    def _cluster(self, part: Part | None, thread: ir.Value, shared: ir.Value | None) -> ClusterExchange | None:
        """What the blocks of a row exchange by, behind what each has for itself."""
        if self.tile.cluster == 1 or part is None or shared is None:
            return None
        count = self.job.barriers(self.tile)
        word, space = ir.IntegerType.get_signless(64), ir.Attribute.parse(exchange.SHARED)
        kind = ir.MemRefType.get([count], word, memory_space=space)
        barriers = memref.ViewOp(kind, shared, rtcalls.index(self.job.scratch(self.tile.exchanges)), []).result
        made = ClusterExchange(self.tile.cluster, part.number, thread, barriers)
        made.enter(count)
        return made

    def emit(self) -> None:
        """All of the kernel."""
        region = self.job.region
        self.begin()
        levels = sorted({member.level for member in region.reductions})
        for each in levels:
            self._reduce([member for member in region.reductions if member.level == each])
            self.prepare(each)
        self.store_rows()
        self.store_columns()

    def _row(self, thread: ir.Value, group: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The thread's row, and whether there is such a row; behind the last one it works on that one."""
        tile = self.tile
        if tile.rows == 1:
            return self.block.arguments[0], None
        each, mine = rtcalls.index(tile.rows), arith.DivUIOp(thread, group).result
        row = arith.AddIOp(arith.MulIOp(self.block.arguments[0], each).result, mine).result
        count = self.job.space.rows
        if count.static is not None and count.static % tile.rows == 0:
            return row, None
        here = arith.CmpIOp(arith.CmpIPredicate.ult, row, count.value).result
        last = arith.SubIOp(count.value, rtcalls.index(1)).result
        return arith.MinUIOp(row, last).result, here

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

    def _columns(self) -> list[Source]:
        """Sources with an element for each column, the same in all rows."""
        return [each for each in self.job.region.sources() if each.kind == COLUMN and self.job.places[each].flat]

    def _columns_of(self, nodes: Sequence[Node]) -> list[Source]:
        return [source for source in needed(nodes) if self.code.varies(source)]

    def _each(self, sources: Sequence[Source], running: list[ir.Value], work: Work) -> list[ir.Value]:
        """Do something with all whole chunks of the row."""

        def prefetched(chunks: list[Chunk], before: list[ir.Value]) -> list[ir.Value]:
            self.code.prefetch(sources, chunks)
            return work(chunks, before)

        if self.tile.keep != REGISTERS:
            return self.deal.loop(running, self.tile.vectors, prefetched)
        self.chunks = self.chunks or self.deal.straight()
        return prefetched(self.chunks, running)

    def store_columns(self) -> None:
        """Each thread stores what it has of the row."""
        stores = [pair for pair in self.job.stores if pair[0].product.kind == FULL]
        if not stores:
            return

        def chunks_of(code: Evaluator, chunks: Sequence[Chunk]) -> None:
            rowstores.columns(code, stores, chunks, self.here)

        def work(chunks: list[Chunk], running: list[ir.Value]) -> list[ir.Value]:
            chunks_of(self.code, chunks)
            return running

        self._each(self._columns_of([store.product for store, _ in stores]), [], work)
        if self.edge is not None:
            chunks_of(self.edge.code, [self.edge.chunk])

    def _reduce(self, members: Sequence[Member]) -> None:
        """One pass for reductions of the same level."""
        for one, done in self.combined(members):
            self.code.rows[one.member] = one.reducer.conclude(one.start, done)

    def combined(self, members: Sequence[Member]) -> list[tuple[Tally, list[ir.Value]]]:
        """What all columns of the row, or of the block's part of it, give for each member."""
        sources = self._columns_of([node for member in members for node in member.nodes if node is not None])
        tallies = self._tallies(self.code, members)
        partial, turns = self._partial(tallies, sources)
        if self.edge is not None:
            edges = self._tallies(self.edge.code, members)
            partial = [[*some, *one.straight([self.edge.chunk])] for some, one in zip(partial, edges, strict=True)]
        found: list[tuple[Tally, list[ir.Value]]] = []
        for one, own, turn in zip(
            tallies, (joined(*each) for each in zip(tallies, partial, strict=True)), turns, strict=True
        ):
            done = self.exchange.all(one, own, one.neutral())
            found.append((one, self._found(one, done[0], own[0], turn, sources) if isinstance(one, Found) else done))
        return found

    def _partial(
        self, tallies: Sequence[Tally], sources: Sequence[Source]
    ) -> tuple[list[list[list[ir.Value]]], list[ir.Value | None]]:
        """Partial results of the thread's whole chunks; of searches in loops also the turns that they are from."""
        if self.tile.keep == REGISTERS:
            found: list[list[list[ir.Value]]] = []

            def work(chunks: list[Chunk], running: list[ir.Value]) -> list[ir.Value]:
                found.extend(one.straight(chunks) for one in tallies)
                return running

            self._each(sources, [], work)
            return found, [None] * len(tallies)
        ran = _run(tallies, lambda running, work: self._each(sources, running, work))
        return [one.lanes(mine) for one, mine in zip(tallies, ran, strict=True)], [mine[-1] for mine in ran]

    def _found(
        self, one: Found, best: ir.Value, own: ir.Value, turn: ir.Value | None, sources: Sequence[Source]
    ) -> list[ir.Value]:
        """The results of a search that has found the row's extreme; in loops the thread's own one was in that turn."""
        here = equal(best, own)
        if turn is not None:
            here = arith.AndIOp(here, one.has(turn)).result

        def places() -> list[ir.Value]:
            chunks = self.chunks
            if turn is not None:
                chunks = self.deal.turn(arith.IndexCastOp(ir.IndexType.get(), turn).result, self.tile.vectors)
                self.code.prefetch(sources, chunks)
            return one.places(best, chunks)

        mine = branches.chosen(here, [one.number, best.type], places, lambda: [one.none, best])
        if self.edge is not None:
            edge = self._tallies(self.edge.code, [one.member])[0]
            assert isinstance(edge, Found)
            mine = Earlier().combine(mine, edge.places(best, [self.edge.chunk]))
        pair = mine if self.job.region.wants(one.member, one.search.value_output) else mine[:1]
        done = self.exchange.all(Earlier(), pair, [one.none, best][: len(pair)])
        return one.result(best, done[0], done[-1] if len(done) > 1 else best)

    def _tallies(self, code: Evaluator, members: Sequence[Member]) -> list[Tally]:
        return [tally(member, self.code.initial(member), code, short=self.tile.width > 1) for member in members]

    def store_rows(self, here: ir.Value | None = None) -> None:
        """One thread of the row, in a block of the row where one is chosen, stores what is one for the row."""
        chosen = self.here if here is None else here
        rowstores.rows(self.job, self.code, self.lane, chosen)


def _run(tallies: Sequence[Tally], each: Callable[[list[ir.Value], Work], list[ir.Value]]) -> list[list[ir.Value]]:
    """Running values at the end, for each reduction."""
    begun = [one.begin() for one in tallies]
    sizes = [len(values) for values in begun]

    def work(chunks: list[Chunk], running: list[ir.Value]) -> list[ir.Value]:
        parts = _parts(running, sizes)
        return [value for one, mine in zip(tallies, parts, strict=True) for value in one.add(chunks, mine)]

    return _parts(each([value for values in begun for value in values], work), sizes)


def _parts(values: Sequence[ir.Value], sizes: Sequence[int]) -> list[list[ir.Value]]:
    found, rest = [], list(values)
    for size in sizes:
        found.append(rest[:size])
        rest = rest[size:]
    return found
