"""The code of kernels that reduce rows: columns of one thread, and those that it shares with threads below it.

In: a job, the form of a block, and what each row gives. Out: for the first thread of each column the combined values,
and the stores of what the region makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls
from aot.lower.fast import bodies, exchange, places
from aot.lower.fast.chunks import MASKED, Chunk, Evaluator, load_vector, store_vector
from aot.lower.fast.region import Member
from aot.lower.fast.rowjob import Job


@dataclass(frozen=True)
class Form:
    """How a block divides the work."""

    lanes: int
    """Threads side by side."""
    depth: int
    """Threads one below the other."""
    unroll: int
    """Rows that a thread has in flight."""

    @property
    def reach(self) -> int:
        """Rows of a block's turn."""
        return self.depth * self.unroll

    def sizes(self) -> dict[str, int]:
        """For reports."""
        return {"across": self.lanes, "threads": self.lanes * self.depth, "rows": self.unroll}


_SLOT = 8
"""Bytes of shared memory for a running value."""
Elements = Callable[[Sequence[ir.Value]], Iterable[list[ir.Value]]]
"""For each of some rows what is to be combined."""


@dataclass
class ColumnKernel:
    """The code of either kernel, for one thread."""

    job: Job
    width: int
    form: Form
    block: ir.Block

    def __post_init__(self) -> None:
        tile, self.lane, self.depth = (self.block.arguments[number] for number in (0, 3, 4))
        number = arith.AddIOp(arith.MulIOp(tile, rtcalls.index(self.form.lanes)).result, self.lane).result
        column = arith.MulIOp(number, rtcalls.index(self.width)).result
        here = arith.CmpIOp(arith.CmpIPredicate.ult, column, self.job.space.columns.value).result
        self.column = arith.SelectOp(here, column, rtcalls.index(0)).result
        top = arith.CmpIOp(arith.CmpIPredicate.eq, self.depth, rtcalls.index(0)).result
        self.is_first = arith.AndIOp(top, here).result
        """Whether the thread is the first one of columns that exist."""
        self.members = self.job.region.reductions
        self.code = self._code(rtcalls.index(0))
        self.chunk = Chunk(self.column, self.column)
        self.starts = _starts(self.job, self.code, self.chunk)

    def _code(self, row: ir.Value) -> Evaluator:
        job = self.job
        within = places.within([*job.places.values(), *(place for _, place in job.stores)])
        code = Evaluator(job.region, job.places, job.space, self.width, MASKED, row, within=within)
        for loop in range(len(self.job.region.rows)):
            code.index(loop, None)
        return code

    def elements(self, rows: Sequence[ir.Value]) -> list[list[ir.Value]]:
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

    def reduce(self, rows: ir.Value, first: ir.Value, step: ir.Value, elements: Elements) -> list[ir.Value]:
        """All turns from ``first`` on, every ``step`` of them; then what the threads of a column have."""
        reach = rtcalls.index(self.form.reach)
        whole = arith.DivUIOp(rows, reach).result
        running = [value for member in self.members for value in _neutral(member, self.starts[member], self.width)]
        loop = scf.ForOp(first, whole, step, running)
        with ir.InsertionPoint(loop.body):
            done = list(loop.inner_iter_args)
            for each in elements(self._rows(loop.induction_variable)):
                done = _combine(self.members, done, each)
            scf.YieldOp(done)
        return self._down(self._last_turn(rows, whole, first, step, elements, list(loop.results)))

    def _rows(self, turn: ir.Value) -> list[ir.Value]:
        start = arith.AddIOp(arith.MulIOp(turn, rtcalls.index(self.form.reach)).result, self.depth).result
        return [bodies.plus(start, number * self.form.depth) for number in range(self.form.unroll)]

    def _last_turn(
        self,
        rows: ir.Value,
        whole: ir.Value,
        first: ir.Value,
        step: ir.Value,
        elements: Elements,
        running: list[ir.Value],
    ) -> list[ir.Value]:
        """The turn that has not all of its rows, for the block whose turn it is."""
        mine = arith.CmpIOp(arith.CmpIPredicate.eq, arith.RemUIOp(whole, step).result, first).result
        last = self._rows(whole)
        some = arith.CmpIOp(arith.CmpIPredicate.ult, last[0], rows).result
        branch = scf.IfOp(arith.AndIOp(mine, some).result, [value.type for value in running], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            inside = [arith.CmpIOp(arith.CmpIPredicate.ult, row, rows).result for row in last]
            # Behind the last row the first one of the turn is read again, and not counted.
            chosen = [arith.SelectOp(here, row, last[0]).result for here, row in zip(inside, last, strict=True)]
            done = running
            for here, each in zip(inside, elements(chosen), strict=True):
                together = _combine(self.members, done, each)
                done = [arith.SelectOp(here, new, old).result for new, old in zip(together, done, strict=True)]
            scf.YieldOp(done)
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(running)
        return list(branch.results)

    def _down(self, running: list[ir.Value]) -> list[ir.Value]:
        """The first thread of each column combines what those below it have."""
        form, shared, offset = self.form, exchange.shared_memory(), 0
        kept = []
        for value in running:
            space = ir.Attribute.parse(exchange.SHARED)
            kind = ir.MemRefType.get([form.depth, form.lanes], value.type, memory_space=space)
            kept.append(memref.ViewOp(kind, shared, rtcalls.index(offset), []).result)
            offset += form.lanes * form.depth * self.width * _SLOT
        for value, memory in zip(running, kept, strict=True):
            memref.StoreOp(value, memory, [self.depth, self.lane])
        gpu.BarrierOp()
        for below in range(1, form.depth):
            other = [memref.LoadOp(memory, [rtcalls.index(below), self.lane]).result for memory in kept]
            running = _combine(self.members, running, other)
        return running

    def finish(self, results: list[ir.Value]) -> None:
        """The results, and what the other members make of them."""
        code, chunk = self._code(rtcalls.index(0)), Chunk(self.column, self.column)
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


def _combine(members: Sequence[Member], one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    done: list[ir.Value] = []
    for member in members:
        assert member.reducer is not None
        size = len(member.operation.outputs)
        first = len(done)
        done += member.reducer.combine(one[first : first + size], other[first : first + size])
    return done


def shared_bytes(job: Job, width: int, form: Form) -> int:
    """Shared memory of a block."""
    count = sum(len(member.operation.outputs) for member in job.region.reductions)
    return count * form.lanes * form.depth * width * _SLOT


def store(value: ir.Value, memory: ir.Value, at: Sequence[ir.Value]) -> None:
    if isinstance(value.type, ir.VectorType):
        store_vector(value, memory, at)
    else:
        memref.StoreOp(value, memory, list(at))


def load(memory: ir.Value, at: Sequence[ir.Value], width: int) -> ir.Value:
    if width == 1:
        return memref.LoadOp(memory, list(at)).result
    return load_vector(memory, at, width, ir.MemRefType(memory.type).element_type)
