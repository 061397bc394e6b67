"""The code of kernels that reduce rows: columns of one thread, and those that it shares with threads below it.

In: a job, the form of a block, and what each row gives. Out: for the first thread of each column the combined values,
and the stores of what the region makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower.fast.columnwise.columnshape import Form, Shape, Turns
from aot.lower.fast.columnwise.running import combined, counted
from aot.lower.fast.region import FULL, Member
from aot.lower.fast.regions import bodies, places
from aot.lower.fast.regions.accesses import load_vector, store_vector
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise import exchange
from aot.lower.fast.rowwise.chunks import MASKED, Chunk, Evaluator
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches
from aot.targets.arch import WARP


@dataclass(frozen=True)
class Row:
    """A row, and the number of its first element."""

    number: ir.Value
    origin: ir.Value

    def at_most(self, last: Row) -> Row:
        """This row, or the last one where there is none."""
        pairs = ((self.number, last.number), (self.origin, last.origin))
        return Row(*(arith.MinUIOp(mine, its).result for mine, its in pairs))


@dataclass
class _Evaluator(Evaluator):
    """Elements of memory without gaps are reached by their number: rows follow each other by additions."""

    origin: ir.Value | None = None

    def address(self, place: Place, column: ir.Value) -> list[ir.Value]:
        if place.kind == FULL and place.flat and self.origin is not None:
            return [arith.AddIOp(self.origin, column).result]
        return super().address(place, column)


Elements = Callable[[Sequence[Row]], Iterable[list[ir.Value]]]
"""For each of some rows what is to be combined."""


@dataclass
class ColumnKernel:
    """The code of either kernel, for one thread."""

    job: Job
    width: int
    shape: Shape
    block: ir.Block

    def __post_init__(self) -> None:
        tile, self.thread = self.block.arguments[0], self.block.arguments[3]
        lane = arith.AndIOp(self.thread, arith.SubIOp(self.shape.lanes, rtcalls.index(1)).result).result
        self.depth = arith.ShRUIOp(self.thread, self.shape.shift).result
        number = arith.AddIOp(arith.MulIOp(tile, self.shape.lanes).result, lane).result
        column = arith.MulIOp(number, rtcalls.index(self.width)).result
        here = arith.CmpIOp(arith.CmpIPredicate.ult, column, self.job.space.columns.value).result
        self.column = arith.SelectOp(here, column, rtcalls.index(0)).result
        top = arith.CmpIOp(arith.CmpIPredicate.eq, self.depth, rtcalls.index(0)).result
        self.is_first = arith.AndIOp(top, here).result
        """Whether the thread is the first one of columns that exist."""
        self.members = self.job.region.reductions
        zero = rtcalls.index(0)
        self.code = self._code(Row(zero, zero))
        self.chunk = Chunk(self.column, self.column)
        self.starts = _starts(self.job, self.code, self.chunk)

    def _code(self, row: Row) -> Evaluator:
        job = self.job
        within = places.within([*job.places.values(), *(place for _, place in job.stores)])
        code = _Evaluator(
            job.region, job.places, job.space, self.width, MASKED, row.number, within=within, origin=row.origin
        )
        for loop in range(len(self.job.region.rows)):
            code.index(loop, None)
        return code

    def elements(self, rows: Sequence[Row]) -> list[list[ir.Value]]:
        """What is to be combined of some rows: all loads first."""
        turns = []
        for row in rows:
            code, chunk = self._code(row), Chunk(self.column, self.column)
            sources = [source for source in self.job.region.sources() if code.varies(source)]
            code.prefetch([source for source in sources if source.kind != "column"], [chunk])
            turns.append((code, chunk))
        return [self._admitted(code, chunk) for code, chunk in turns]

    def _admitted(self, code: Evaluator, chunk: Chunk) -> list[ir.Value]:
        found = []
        for member in self.members:
            reducer = member.reducer
            assert reducer is not None
            found += reducer.admit(self.starts[member], code.elements(member, chunk, reducer.elements))
        return found

    def reduce(self, turns: Turns, block: ir.Value, elements: Elements) -> list[ir.Value]:
        """All turns of a block; then what the threads of a column have."""
        running = [value for member in self.members for value in _neutral(member, self.starts[member], self.width)]
        loop = scf.ForOp(block, turns.whole, turns.blocks, running)
        with ir.InsertionPoint(loop.body):
            done = list(loop.inner_iter_args)
            for each in elements(self._rows(loop.induction_variable)):
                done = combined(self.members, done, each)
            scf.YieldOp(done)
        return self._down(self._last_turn(turns, block, elements, list(loop.results)))

    def _rows(self, turn: ir.Value) -> list[Row]:
        columns = self.job.space.columns.value
        first = arith.AddIOp(arith.MulIOp(turn, self.shape.reach).result, self.depth).result
        found = [Row(first, arith.MulIOp(first, columns).result)]
        below = self.shape.depth
        apart = arith.MulIOp(below, columns).result
        while len(found) < self.shape.form.unroll:
            last = found[-1]
            found.append(Row(arith.AddIOp(last.number, below).result, arith.AddIOp(last.origin, apart).result))
        return found

    def _last_turn(self, turns: Turns, block: ir.Value, elements: Elements, running: list[ir.Value]) -> list[ir.Value]:
        """The turn that has not all of its rows, for the block whose turn it is."""
        mine, rows = arith.CmpIOp(arith.CmpIPredicate.eq, turns.last, block).result, turns.rows
        last = self._rows(turns.whole)
        some = arith.CmpIOp(arith.CmpIPredicate.ult, last[0].number, rows).result

        def last_rows() -> list[ir.Value]:
            # Behind the last row that one is read again, and not counted.
            number = arith.SubIOp(rows, rtcalls.index(1)).result
            final = Row(number, arith.MulIOp(number, self.job.space.columns.value).result)
            found = list(elements([row.at_most(final) for row in last]))
            return counted(self.members, running, zip((row.number for row in last), found, strict=True), rows)

        return branches.changed(arith.AndIOp(mine, some).result, running, last_rows)

    def _down(self, running: list[ir.Value]) -> list[ir.Value]:
        """The first thread of each column combines what those below it have: halves, then halves of those.

        Threads of one warp read each other's registers.
        """
        threads, shared, offset, kept = self.shape.form.threads, exchange.shared_memory(), 0, []
        for value in running:
            space = ir.Attribute.parse(exchange.SHARED)
            kind = ir.MemRefType.get([threads], value.type, memory_space=space)
            kept.append(memref.ViewOp(kind, shared, rtcalls.index(offset), []).result)
            offset += _slot_bytes(value.type) * threads
        half = threads // 2
        while half:
            wanted = arith.CmpIOp(arith.CmpIPredicate.uge, rtcalls.index(half), self.shape.lanes).result
            there = arith.CmpIOp(arith.CmpIPredicate.ult, rtcalls.index(half), self.shape.threads).result
            wanted = arith.AndIOp(wanted, there).result
            running = branches.changed(wanted, running, partial(self._halved, running, kept, half))
            half //= 2
        return running

    def _halved(self, running: list[ir.Value], kept: list[ir.Value], half: int) -> list[ir.Value]:
        """The lower half of the threads takes what the upper one has, within a warp from its registers."""
        if half < WARP:
            return combined(self.members, running, [exchange.partners(value, half) for value in running])
        upper = arith.CmpIOp(arith.CmpIPredicate.uge, self.thread, rtcalls.index(half)).result
        with branches.guard(upper):
            for value, memory in zip(running, kept, strict=True):
                memref.StoreOp(value, memory, [self.thread])
        gpu.BarrierOp()
        lower = arith.CmpIOp(arith.CmpIPredicate.ult, self.thread, rtcalls.index(half)).result

        def together() -> list[ir.Value]:
            there = bodies.plus(self.thread, half)
            return combined(self.members, running, [memref.LoadOp(memory, [there]).result for memory in kept])

        return branches.changed(lower, running, together)

    def finish(self, results: list[ir.Value]) -> None:
        """The results, and what the other members make of them."""
        code, chunk = self.code, Chunk(self.column, self.column)
        for member in self.members:
            size = len(member.operation.outputs)
            assert member.reducer is not None
            done = member.reducer.conclude(self._spread(member), results[:size])
            results = results[size:]
            chunk.memo.update(((member, number), value) for number, value in enumerate(done))
        values = [code.values(store.product, chunk) for store, _ in self.job.stores]
        for value, (_, place) in zip(values, self.job.stores, strict=True):
            if place.wide and self.width > 1:
                store_vector(value, place.memory, code.address(place, self.column))
                continue
            for number, element in enumerate(bodies.unpack(value)):
                code.store_element(place, bodies.plus(self.column, number), element)

    def _spread(self, member: Member) -> list[ir.Value]:
        return [
            value if isinstance(value.type, ir.VectorType) else bodies.broadcast(value, self.width)
            for value in self.starts[member]
        ]


def _starts(job: Job, code: Evaluator, chunk: Chunk) -> dict[Member, list[ir.Value]]:
    """Running values before the first row."""
    found = {}
    for member in job.region.reductions:
        nodes = [member.nodes[number] for number in member.operation.outputs]
        found[member] = [code.values(node, chunk) for node in nodes if node is not None]
    return found


def _neutral(member: Member, start: Sequence[ir.Value], width: int) -> list[ir.Value]:
    assert member.reducer is not None
    if member.reducer.search is not None:
        return list(start)
    return [bodies.broadcast(value, width) for value in member.reducer.neutral(start)]


def shared_bytes(job: Job, width: int, form: Form) -> int:
    """Shared memory of a block."""
    kinds = [value.type for member in job.region.reductions for value in member.operation.yielded]
    return sum(_slot_bytes(kind) * width * form.threads for kind in kinds)


def _slot_bytes(kind: ir.Type) -> int:
    """Of a running value; whole words, so that what follows is aligned."""
    if isinstance(kind, ir.VectorType):
        return int(kind.shape[0]) * _slot_bytes(kind.element_type)
    return 8 if isinstance(kind, ir.IndexType) else max(4, rtcalls.storage_bytes(kind))


def store(value: ir.Value, memory: ir.Value, at: Sequence[ir.Value]) -> None:
    """Store an element, or a vector of elements from ``at`` on."""
    if isinstance(value.type, ir.VectorType):
        store_vector(value, memory, at)
    else:
        memref.StoreOp(value, memory, list(at))


def load(memory: ir.Value, at: Sequence[ir.Value], width: int) -> ir.Value:
    """An element, or a vector of ``width`` elements from ``at`` on."""
    if width == 1:
        return memref.LoadOp(memory, list(at)).result
    return load_vector(memory, at, width, ir.MemRefType(memory.type).element_type)
