"""The kernels of a region whose rows are reduced: sums over columns and what is done with them.

In: a region with ``turned``, its places, and the width of vectors. Out: two launches. In the first one a block takes
some columns and every so many rows, and leaves one partial result for each column; in the second one a thread combines
the partial results of its columns, in order, and finishes.

Neighbouring threads read neighbouring columns, so that every access is whole lines; partial results lie in a buffer of
the function's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.fast import bodies, exchange
from aot.lower.fast.chunks import MASKED, Chunk, Evaluator, guard, store_vector
from aot.lower.fast.places import is_wide
from aot.lower.fast.region import Member, Region
from aot.lower.fast.rowjob import Job

_LANES = 32
"""Threads of a block side by side."""
_DEPTH = 8
"""Threads of a block one below the other."""
_UNROLL = 4
_SLICES = 64
"""Blocks that share some columns, at most."""
_FINISH = 128
"""Threads of a block of the second launch."""


@dataclass(frozen=True)
class _Partials:
    """Buffers of partial results: slices x columns, for each result of each reduction."""

    memories: tuple[ir.Value, ...]
    slices: ir.Value


def launch(job: Job, width: int) -> None:
    """Emit both kernels at the insertion point; the columns are a multiple of the width, and aligned."""
    partials = _partials(job)
    sizes = {"across": _LANES, "threads": _LANES * _DEPTH, "rows": _UNROLL, "width": width}
    _mark(_first(job, width, partials), job.region, "columns", sizes)
    _mark(_second(job, partials), job.region, "columns-finish", {"threads": _FINISH})
    for memory in partials.memories:
        memref.DeallocOp(memory)


def fits(job: Job, width: int) -> bool:
    """Whether running values can be vectors in shared memory."""
    kinds = [value.type for member in job.region.reductions for value in member.operation.yielded]
    return width == 1 or all(is_wide(kind) for kind in kinds)


def _mark(op: ir.Operation, region: Region, name: str, sizes: dict[str, int]) -> None:
    tiling.mark(op, region.kind, region.number, name, sizes)


def _partials(job: Job) -> _Partials:
    reach = rtcalls.index(_DEPTH * _UNROLL)
    turns = arith.CeilDivUIOp(job.space.rows.value, reach).result
    slices = arith.MinUIOp(turns, rtcalls.index(_SLICES)).result
    dynamic = ir.ShapedType.get_dynamic_size()
    memories = []
    for member in job.region.reductions:
        for value in member.operation.yielded:
            kind = ir.MemRefType.get([dynamic, dynamic], value.type)
            memories.append(memref.AllocOp(kind, [slices, job.space.columns.value], []).result)
    return _Partials(tuple(memories), slices)


def _first(job: Job, width: int, partials: _Partials) -> ir.Operation:
    one = rtcalls.index(1)
    tiles = arith.CeilDivUIOp(job.space.columns.value, rtcalls.index(_LANES * width)).result
    count = sum(len(member.operation.outputs) for member in job.region.reductions)
    size = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count * _LANES * _DEPTH * width * 8)
    shared = arith.ConstantOp(size.type, size).result
    op = gpu.LaunchOp(
        (tiles, partials.slices, one),
        (rtcalls.index(_LANES), rtcalls.index(_DEPTH), one),
        dynamic_shared_memory_size=shared,
    ).operation
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        _FirstKernel(job, width, partials, body).emit()
    return op


@dataclass
class _FirstKernel:
    """The code of the first kernel."""

    job: Job
    width: int
    partials: _Partials
    block: ir.Block

    def emit(self) -> None:
        tile, self.slice, self.lane, self.depth = (self.block.arguments[n] for n in (0, 1, 3, 4))
        number = arith.AddIOp(arith.MulIOp(tile, rtcalls.index(_LANES)).result, self.lane).result
        column = arith.MulIOp(number, rtcalls.index(self.width)).result
        here = arith.CmpIOp(arith.CmpIPredicate.ult, column, self.job.space.columns.value).result
        self.column = arith.SelectOp(here, column, rtcalls.index(0)).result
        members = self.job.region.reductions
        starts = _starts(self.job, self._code(rtcalls.index(0)), Chunk(self.column, self.column))
        running = [value for member in members for value in _neutral(member, starts[member], self.width)]
        running = self._rows(members, starts, running)
        running = self._down(members, running)
        first = arith.CmpIOp(arith.CmpIPredicate.eq, self.depth, rtcalls.index(0)).result
        with guard(arith.AndIOp(first, here).result):
            for value, memory in zip(running, self.partials.memories, strict=True):
                _store(value, memory, [self.slice, self.column])

    def _code(self, row: ir.Value) -> Evaluator:
        code = Evaluator(self.job.region, self.job.places, self.job.space, self.width, MASKED, row)
        for loop in range(len(self.job.region.rows)):
            code.index(loop, None)
        return code

    def _rows(
        self, members: Sequence[Member], starts: dict[Member, list[ir.Value]], running: list[ir.Value]
    ) -> list[ir.Value]:
        """Every so many rows, several at a time."""
        rows = self.job.space.rows.value
        first = arith.MulIOp(self.slice, rtcalls.index(_DEPTH * _UNROLL)).result
        first = arith.AddIOp(first, self.depth).result
        step = arith.MulIOp(self.partials.slices, rtcalls.index(_DEPTH * _UNROLL)).result
        loop = scf.ForOp(first, rows, step, running)
        with ir.InsertionPoint(loop.body):
            done = list(loop.inner_iter_args)
            turns = []
            for number in range(_UNROLL):
                row = arith.AddIOp(loop.induction_variable, rtcalls.index(number * _DEPTH)).result
                inside = None if number == 0 else arith.CmpIOp(arith.CmpIPredicate.ult, row, rows).result
                # Behind the last row the loop's own row is read again, and not counted.
                at = row if inside is None else arith.SelectOp(inside, row, loop.induction_variable).result
                code, chunk = self._code(at), Chunk(self.column, self.column)
                sources = [s for s in self.job.region.sources() if code.varies(s)]
                code.prefetch([s for s in sources if s.kind != "column"], [chunk])
                turns.append((code, chunk, inside))
            for code, chunk, inside in turns:
                done = _accumulate(members, starts, code, chunk, inside, done)
            scf.YieldOp(done)
        return list(loop.results)

    def _down(self, members: Sequence[Member], running: list[ir.Value]) -> list[ir.Value]:
        """The first thread of each column combines what those below it have."""
        shared = exchange.shared_memory()
        kept = []
        for number, value in enumerate(running):
            kind = ir.MemRefType.get([_DEPTH, _LANES], value.type, memory_space=ir.Attribute.parse(exchange.SHARED))
            offset = rtcalls.index(number * _LANES * _DEPTH * self.width * 8)
            kept.append(memref.ViewOp(kind, shared, offset, []).result)
        for value, memory in zip(running, kept, strict=True):
            memref.StoreOp(value, memory, [self.depth, self.lane])
        gpu.BarrierOp()
        for below in range(1, _DEPTH):
            other = [memref.LoadOp(memory, [rtcalls.index(below), self.lane]).result for memory in kept]
            running = _combine(members, running, other)
        return running


def _second(job: Job, partials: _Partials) -> ir.Operation:
    one = rtcalls.index(1)
    blocks = arith.CeilDivUIOp(job.space.columns.value, rtcalls.index(_FINISH)).result
    op = gpu.LaunchOp((blocks, one, one), (rtcalls.index(_FINISH), one, one)).operation
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        first = arith.MulIOp(body.arguments[0], rtcalls.index(_FINISH)).result
        column = arith.AddIOp(first, body.arguments[3]).result
        with guard(arith.CmpIOp(arith.CmpIPredicate.ult, column, job.space.columns.value).result):
            _finish(job, partials, column)
    return op


def _finish(job: Job, partials: _Partials, column: ir.Value) -> None:
    """All partial results of one column, in order, and what the other members make of them."""
    members = job.region.reductions
    code = Evaluator(job.region, job.places, job.space, 1, MASKED, rtcalls.index(0))
    chunk = Chunk(column, column)
    starts = _starts(job, code, chunk)
    running = [value for member in members for value in _neutral(member, starts[member], 1)]
    loop = scf.ForOp(rtcalls.index(0), partials.slices, rtcalls.index(1), running)
    with ir.InsertionPoint(loop.body):
        at = [loop.induction_variable, column]
        other = [memref.LoadOp(memory, at).result for memory in partials.memories]
        scf.YieldOp(_combine(members, list(loop.inner_iter_args), other))
    results = list(loop.results)
    for member in members:
        size = len(member.operation.outputs)
        assert member.reducer is not None
        done = member.reducer.conclude(starts[member], results[:size])
        results = results[size:]
        chunk.memo.update(((member, number), value) for number, value in enumerate(done))
    values = [code.values(store.product, chunk) for store, _ in job.stores]
    for value, (_, place) in zip(values, job.stores, strict=True):
        code.store_element(place, column, value)


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


def _accumulate(
    members: Sequence[Member],
    starts: dict[Member, list[ir.Value]],
    code: Evaluator,
    chunk: Chunk,
    inside: ir.Value | None,
    running: list[ir.Value],
) -> list[ir.Value]:
    done: list[ir.Value] = []
    for member in members:
        reducer, size = member.reducer, len(member.operation.outputs)
        assert reducer is not None
        mine, running = running[:size], running[size:]
        elements = reducer.admit(starts[member], code.elements(member, chunk, reducer.elements))
        together = reducer.combine(mine, elements)
        if inside is not None:
            together = [arith.SelectOp(inside, new, old).result for new, old in zip(together, mine, strict=True)]
        done += together
    return done


def _combine(members: Sequence[Member], one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    done: list[ir.Value] = []
    for member in members:
        assert member.reducer is not None
        size = len(member.operation.outputs)
        first = len(done)
        done += member.reducer.combine(one[first : first + size], other[first : first + size])
    return done


def _store(value: ir.Value, memory: ir.Value, at: Sequence[ir.Value]) -> None:
    if isinstance(value.type, ir.VectorType):
        store_vector(value, memory, at)
    else:
        memref.StoreOp(value, memory, list(at))


def misfit(region: Region) -> str:
    """Why columns of the region are no good way to run it."""
    for member in region.members:
        asks = any(op.operation.name == "linalg.index" for op in member.operation.body.operations)
        if member.reducer is None and asks:
            return "what is done with the results asks for an index"
        if any(node is not None and getattr(node, "kind", "") == "part" for node in member.nodes):
            return "an operand is indexed by some of the loops"
        if len({each.level for each in region.reductions}) > 1:
            return "reductions that depend on each other"
    return ""
