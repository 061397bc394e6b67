"""The kernels of a region of few long rows: blocks share a row, and a second launch puts their results together.

In: a region of rows with one level of reductions and results for each row only, its places, and a tile that loops.
Out: two launches, and a buffer of the function's own between them.

The order in which results are combined does not depend on timing: a sum is the same in every call.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls
from aot.lower.fast.chunks import MASKED, guard
from aot.lower.fast.region import FULL, Region
from aot.lower.fast.rowchunks import Share
from aot.lower.fast.rowjob import MEMORY, Job, Tile
from aot.lower.fast.rows import RowKernel, reducer_of

SLICES = 528
"""Blocks for one row, at most."""
MANY_ROWS = 64
"""Rows that fill a GPU by themselves."""
LONG = 32768
"""Columns that are worth a second launch."""
_FINISH = Tile("slices-finish", 128, 1, 1, 1, MASKED, MEMORY)


def fits(region: Region) -> bool:
    """Whether partial results are all that a row needs."""
    levels = {member.level for member in region.reductions}
    return levels == {1} and all(store.product.kind != FULL for store in region.stores)


def launch(job: Job, tile: Tile) -> None:
    """Emit both kernels at the insertion point."""
    reach = rtcalls.index(tile.reach)
    turns = arith.CeilDivUIOp(job.space.columns.value, reach).result
    slices = arith.MinUIOp(turns, rtcalls.index(SLICES)).result
    dynamic = ir.ShapedType.get_dynamic_size()
    memories = []
    for member in job.region.reductions:
        for value in member.operation.yielded:
            kind = ir.MemRefType.get([dynamic, dynamic], value.type)
            memories.append(memref.AllocOp(kind, [job.space.rows.value, slices], []).result)
    _first(job, tile, memories, slices)
    _second(job, memories, slices)
    for memory in memories:
        memref.DeallocOp(memory)


def _kernel(job: Job, tile: Tile, blocks: Sequence[ir.Value]) -> tuple[ir.Block, ir.InsertionPoint]:
    one = rtcalls.index(1)
    shared = arith.ConstantOp(ir.IntegerType.get_signless(32), job.scratch()).result
    op = gpu.LaunchOp(
        (*blocks, one), (rtcalls.index(tile.threads), one, one), dynamic_shared_memory_size=shared
    ).operation
    tile.mark(op, job.region)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    return body, ir.InsertionPoint(end)


def _first(job: Job, tile: Tile, memories: Sequence[ir.Value], slices: ir.Value) -> None:
    body, point = _kernel(job, tile, [slices, job.space.rows.value])
    with point:
        row, number = body.arguments[1], body.arguments[0]
        kernel = RowKernel(job, tile, body)
        kernel.begin(row, Share(number, slices))
        members = job.region.reductions
        starts = {member: kernel.code.initial(member) for member in members}
        running = kernel.partial(members, starts)
        done: list[ir.Value] = []
        for member in members:
            size = len(starts[member])
            neutral = reducer_of(member).neutral(starts[member])
            done += kernel.exchange.all(reducer_of(member), running[:size], neutral)
            running = running[size:]
        first = arith.CmpIOp(arith.CmpIPredicate.eq, kernel.lane, rtcalls.index(0)).result
        with guard(first):
            for value, memory in zip(done, memories, strict=True):
                memref.StoreOp(value, memory, [row, number])


def _second(job: Job, memories: Sequence[ir.Value], slices: ir.Value) -> None:
    body, point = _kernel(job, _FINISH, [job.space.rows.value, rtcalls.index(1)])
    with point:
        kernel = RowKernel(job, _FINISH, body)
        kernel.begin(body.arguments[0])
        members = job.region.reductions
        starts = {member: kernel.code.initial(member) for member in members}
        neutral = [value for member in members for value in reducer_of(member).neutral(starts[member])]
        loop = scf.ForOp(kernel.lane, slices, rtcalls.index(_FINISH.group), neutral)
        with ir.InsertionPoint(loop.body):
            at = [body.arguments[0], loop.induction_variable]
            other = [memref.LoadOp(memory, at).result for memory in memories]
            mine, together = list(loop.inner_iter_args), []
            for member in members:
                size = len(starts[member])
                together += reducer_of(member).combine(mine[:size], other[:size])
                mine, other = mine[size:], other[size:]
            scf.YieldOp(together)
        running = list(loop.results)
        for member in members:
            size = len(starts[member])
            neutral = reducer_of(member).neutral(starts[member])
            done = kernel.exchange.all(reducer_of(member), running[:size], neutral)
            running = running[size:]
            kernel.code.rows[member] = reducer_of(member).conclude(starts[member], done)
        kernel.prepare(1)
        kernel.store_rows()
