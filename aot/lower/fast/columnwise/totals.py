"""The kernels of a region that reduces everything to one result: a full sum and what is done with it.

In: a region of one row, whose results are all for the row, its places, and the width of vectors. Out: two launches, or
one where it is little work: blocks of the first one leave a partial result each, the second one is a single block.

Threads have many vectors in flight, and none of them asks whether it is inside: the last turn does, and what is left
behind the last vector is read element by element. The order of combining depends on the extents only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower.fast.columnwise.running import combined, counted
from aot.lower.fast.region import FULL, Product, Region
from aot.lower.fast.regions import bodies, places
from aot.lower.fast.rowwise import rowstores
from aot.lower.fast.rowwise.chunks import MASKED, Chunk, Evaluator
from aot.lower.fast.rowwise.exchange import Exchange, shared_memory
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling

NAME = "total"
_THREADS = 256
_UNROLL = 8
"""Vectors of a thread and turn."""
_BLOCKS = 528
"""Of the first launch, about."""
_RESIDENT = 1024
"""Threads on a multiprocessor, with the registers for all loads of a turn at once."""
_FINISH = 1024
"""Threads of the second launch."""


def fits(region: Region) -> bool:
    """Whether partial results are all that is needed of the elements; for searches, slices of a row are faster."""
    levels = {member.level for member in region.reductions}
    searches = any(member.reducer is not None and member.reducer.search for member in region.reductions)
    return levels == {1} and not searches and all(store.product.kind != FULL for store in region.stores)


def launch(job: Job, width: int) -> None:
    """Emit the kernels at the insertion point; with vectors where memory is aligned."""
    wide = [place for place in [*job.places.values(), *(place for _, place in job.stores)] if place.wide]
    whole = places.whole(wide, job.space, width) if places.within(wide) else True
    if width == 1 or whole is False:
        _launch(job, 1)
        return
    places.with_vectors(wide, whole, width, partial(_launch, job))


def _launch(job: Job, width: int) -> None:
    one = rtcalls.index(1)
    vectors = arith.DivUIOp(job.space.columns.value, rtcalls.index(width)).result
    turns = arith.MaxUIOp(arith.CeilDivUIOp(vectors, rtcalls.index(_THREADS * _unroll(job))).result, one).result
    # Every block has as many turns as the others, but for one.
    blocks = arith.CeilDivUIOp(turns, arith.CeilDivUIOp(turns, rtcalls.index(_BLOCKS)).result).result
    alone = arith.CmpIOp(arith.CmpIPredicate.eq, blocks, one).result
    branches.either(alone, lambda: _first(job, width, one, ()), lambda: _in_two(job, width, blocks))


def _in_two(job: Job, width: int, blocks: ir.Value) -> None:
    """A partial result of each block, and a launch that combines them."""
    dynamic = ir.ShapedType.get_dynamic_size()
    kinds = [value.type for member in job.region.reductions for value in member.operation.yielded]
    memories = [memref.AllocOp(ir.MemRefType.get([dynamic], kind), [blocks], []).result for kind in kinds]
    _first(job, width, blocks, memories)
    _second(job, blocks, memories)
    for memory in memories:
        memref.DeallocOp(memory)


def _unroll(job: Job) -> int:
    """Fewer where each vector is read from several places."""
    sources = sum(source.kind == FULL or job.places[source].inner for source in job.region.sources())
    return max(1, _UNROLL >> max(0, sources - 1).bit_length())


def _kernel(job: Job, name: str, blocks: ir.Value, sizes: dict[str, int]) -> ir.Block:
    one = rtcalls.index(1)
    shared = arith.ConstantOp(ir.IntegerType.get_signless(32), job.scratch()).result
    threads = (rtcalls.index(sizes["threads"]), one, one)
    op = gpu.LaunchOp((blocks, one, one), threads, dynamic_shared_memory_size=shared).operation
    tiling.mark(op, job.region.kind, job.region.number, name, sizes)
    tiling.give_registers(op, _RESIDENT // sizes["threads"])
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        gpu.TerminatorOp()
    return body


def _first(job: Job, width: int, blocks: ir.Value, memories: Sequence[ir.Value]) -> None:
    """Leave partial results; without memory for them, finish: then everything is the block's."""
    body = _kernel(job, NAME, blocks, {"threads": _THREADS, "vectors": _unroll(job), "width": width})
    with ir.InsertionPoint.at_block_terminator(body):
        kernel = _Kernel(job, width, _THREADS, body)
        partial = kernel.exchanged(kernel.own(blocks))
        if not memories:
            kernel.finish(partial)
            return
        with branches.guard(arith.CmpIOp(arith.CmpIPredicate.eq, kernel.thread, rtcalls.index(0)).result):
            for value, memory in zip(partial, memories, strict=True):
                memref.StoreOp(value, memory, [body.arguments[0]])


def _second(job: Job, blocks: ir.Value, memories: Sequence[ir.Value]) -> None:
    body = _kernel(job, f"{NAME}-finish", rtcalls.index(1), {"threads": _FINISH})
    with ir.InsertionPoint.at_block_terminator(body):
        kernel = _Kernel(job, 1, _FINISH, body)
        loop = scf.ForOp(kernel.thread, blocks, rtcalls.index(_FINISH), kernel.neutral(1))
        with ir.InsertionPoint(loop.body):
            found = [memref.LoadOp(memory, [loop.induction_variable]).result for memory in memories]
            scf.YieldOp(kernel.combine(list(loop.inner_iter_args), found))
        kernel.finish(kernel.exchanged(list(loop.results)))


@dataclass
class _Kernel:
    """The code of either kernel, for one thread."""

    job: Job
    width: int
    threads: int
    block: ir.Block

    def __post_init__(self) -> None:
        self.thread = self.block.arguments[3]
        self.members = self.job.region.reductions
        self.code = self._code(self.width)
        self.starts = {member: self.code.initial(member) for member in self.members}

    def _code(self, width: int) -> Evaluator:
        within = any(place.inner and place.wide for place in self.job.places.values())
        row = rtcalls.index(0)
        code = Evaluator(self.job.region, self.job.places, self.job.space, width, MASKED, row, within=within)
        for source in self.job.region.sources():
            if not code.varies(source):
                code.row_value(source)
        return code

    def neutral(self, width: int) -> list[ir.Value]:
        """Running values before anything."""
        found = []
        for member in self.members:
            assert member.reducer is not None
            found += [bodies.broadcast(value, width) for value in member.reducer.neutral(self.starts[member])]
        return found

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """Two lists of running values together."""
        return combined(self.members, one, other)

    def own(self, blocks: ir.Value) -> list[ir.Value]:
        """What the thread's own elements give."""
        columns, number = self.job.space.columns.value, self.block.arguments[0]
        vectors = arith.DivUIOp(columns, rtcalls.index(self.width)).result
        whole = arith.DivUIOp(vectors, rtcalls.index(self.threads * _unroll(self.job))).result
        # The turn after a block's last one tells whether the turn behind all whole ones is the block's.
        loop = scf.ForOp(number, whole, blocks, [number, *self.neutral(self.width)])
        with ir.InsertionPoint(loop.body):
            done = list(loop.inner_iter_args)[1:]
            for each in self._elements(self.code, self._vectors(loop.induction_variable)):
                done = self.combine(done, each)
            scf.YieldOp([arith.AddIOp(loop.induction_variable, blocks).result, *done])
        following, *running = loop.results
        mine = arith.CmpIOp(arith.CmpIPredicate.eq, following, whole).result
        running = branches.changed(mine, running, lambda: self._last(running, self._vectors(whole), vectors))
        return self._left(self._joined(running), mine, vectors)

    def _vectors(self, turn: ir.Value) -> list[ir.Value]:
        """Numbers of the thread's vectors."""
        first = arith.MulIOp(turn, rtcalls.index(self.threads * _unroll(self.job))).result
        first = arith.AddIOp(first, self.thread).result
        return [bodies.plus(first, number * self.threads) for number in range(_unroll(self.job))]

    def _elements(self, code: Evaluator, vectors: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """What is to be combined of some vectors: all loads first."""
        chunks = []
        for vector in vectors:
            column = arith.MulIOp(vector, rtcalls.index(code.width)).result
            chunks.append(Chunk(column, column))
        code.prefetch([source for source in self.job.region.sources() if code.varies(source)], chunks)
        return [self._admitted(code, chunk) for chunk in chunks]

    def _admitted(self, code: Evaluator, chunk: Chunk) -> list[ir.Value]:
        found: list[ir.Value] = []
        for member in self.members:
            assert member.reducer is not None
            start = [bodies.broadcast(value, code.width) for value in self.starts[member]]
            found += member.reducer.admit(start, code.elements(member, chunk, member.reducer.elements))
        return found

    def _last(self, running: list[ir.Value], vectors: Sequence[ir.Value], count: ir.Value) -> list[ir.Value]:
        """The turn that has not all of its vectors: instead of others the last one is read, and not counted again."""
        some = arith.CmpIOp(arith.CmpIPredicate.ugt, count, rtcalls.index(0)).result

        def last() -> list[ir.Value]:
            final = arith.SubIOp(count, rtcalls.index(1)).result
            found = self._elements(self.code, [arith.MinUIOp(vector, final).result for vector in vectors])
            return counted(self.members, running, zip(vectors, found, strict=True), count)

        return branches.changed(some, running, last)

    def _joined(self, running: Sequence[ir.Value]) -> list[ir.Value]:
        """One result from the elements of vectors: pairs, then pairs of pairs."""
        partial = [list(each) for each in zip(*(bodies.unpack(value) for value in running), strict=True)]
        while len(partial) > 1:
            half = len(partial) // 2
            partial = [self.combine(one, other) for one, other in zip(partial[:half], partial[half:], strict=True)]
        return partial[0]

    def _left(self, running: list[ir.Value], mine: ir.Value, vectors: ir.Value) -> list[ir.Value]:
        """What is behind the last vector, an element for each thread."""
        columns = self.job.space.columns
        if self.width == 1 or (columns.static is not None and columns.static % self.width == 0):
            return running
        column = arith.AddIOp(arith.MulIOp(vectors, rtcalls.index(self.width)).result, self.thread).result
        here = arith.CmpIOp(arith.CmpIPredicate.ult, column, columns.value).result

        def left() -> list[ir.Value]:
            (element,) = self._elements(self._code(1), [column])
            return self.combine(running, element)

        return branches.changed(arith.AndIOp(mine, here).result, running, left)

    def exchanged(self, running: list[ir.Value]) -> list[ir.Value]:
        """What all threads of the block have together."""
        exchange, done = Exchange(self.threads, self.thread, shared_memory()), []
        for member in self.members:
            assert member.reducer is not None
            mine, running = running[: len(member.operation.outputs)], running[len(member.operation.outputs) :]
            done += exchange.all(member.reducer, mine, member.reducer.neutral(self.starts[member]))
        return done

    def finish(self, results: list[ir.Value]) -> None:
        """The results, and what the other members make of them."""
        for member in self.members:
            assert member.reducer is not None
            mine, results = results[: len(member.operation.outputs)], results[len(member.operation.outputs) :]
            self.code.rows[member] = member.reducer.conclude(self.starts[member], mine)
        for other in self.job.region.members:
            if other.kind != FULL and other.reducer is None:
                self.code.row_value(Product(other, 0))
        rowstores.rows(self.job, self.code, self.thread, None)
