"""The kernels of a region of few long rows: blocks share a row, and later launches put their results together.

In: a region of rows, its places, and a tile that loops. Out: a launch for each level of reductions and one for the
results, and buffers of the function's own between them.

A softmax has three launches: parts of maxima; from all of them the maximum, and parts of sums; from all of those the
sum, and the results. The order in which parts are combined does not depend on timing: a sum is the same in every call.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower.fast.region import FULL, Member, Region
from aot.lower.fast.regions import hazards
from aot.lower.fast.regions.reducers import Reducer
from aot.lower.fast.rowwise.chunks import MASKED
from aot.lower.fast.rowwise.rowchunks import Part
from aot.lower.fast.rowwise.rowjob import MEMORY, Job, Tile
from aot.lower.fast.rowwise.rows import RowKernel
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

SLICES = 528
"""Blocks for one row, at most."""
MANY_ROWS = 64
"""Rows that fill a GPU by themselves."""
LONG = 32768
"""Columns that are worth more launches than one."""
_FINISH = Tile("slices-finish", 128, 1, 1, 1, MASKED, MEMORY)

_Memories = dict[Member, list[ir.Value]]
"""For each reduction, results of rows x blocks."""


def fits(region: Region) -> bool:
    """Whether blocks may share a row: none may store what another one still has to read."""
    stored = {hazards.whole(store.memory) for store in region.stores if store.product.kind != FULL}
    read = {hazards.whole(source.value) for source in region.sources()}
    return bool(region.reductions) and (not _is_full(region) or not stored & read)


def _is_full(region: Region) -> bool:
    return any(store.product.kind == FULL for store in region.stores)


def launch(job: Job, tile: Tile) -> None:
    """Emit all kernels at the insertion point."""
    slices = _count(job, tile)
    dynamic = ir.ShapedType.get_dynamic_size()
    memories: _Memories = {}
    for level in sorted({member.level for member in job.region.reductions}):
        members = [member for member in job.region.reductions if member.level == level]
        mine: _Memories = {}
        for member in members:
            kinds = [ir.MemRefType.get([dynamic, dynamic], value.type) for value in member.operation.yielded]
            mine[member] = [memref.AllocOp(kind, [job.space.rows.value, slices], []).result for kind in kinds]
        _Stage(job, tile, memories, slices).reduce(mine)
        memories |= mine
    full = _is_full(job.region)
    _Stage(job, tile if full else _FINISH, memories, slices).finish(divided=full)
    for memory in [each for some in memories.values() for each in some]:
        memref.DeallocOp(memory)


def _count(job: Job, tile: Tile) -> ir.Value:
    """Blocks of a row."""
    turns = arith.CeilDivUIOp(job.space.columns.value, rtcalls.index(tile.reach)).result
    return arith.MinUIOp(turns, rtcalls.index(SLICES)).result


@dataclass
class _Stage:
    """One launch."""

    job: Job
    tile: Tile
    known: _Memories
    """Results of the launches before."""
    slices: ir.Value

    def reduce(self, memories: _Memories) -> None:
        """Leave the results of the block's part of a row."""
        body, point = self._kernel(self.slices)
        with point:
            row, number = body.arguments[1], body.arguments[0]
            kernel = self._begun(body, row, Part(number, self.slices))
            done = [value for _, values in kernel.combined(list(memories)) for value in values]
            with branches.guard(_is_zero(kernel.lane)):
                for value, memory in zip(done, [each for some in memories.values() for each in some], strict=True):
                    memref.StoreOp(value, memory, [row, number])

    def finish(self, *, divided: bool) -> None:
        """Store the region's results, each block those of its part of a row, or one block those of the row."""
        body, point = self._kernel(self.slices if divided else rtcalls.index(1))
        with point:
            row, number = body.arguments[1], body.arguments[0]
            kernel = self._begun(body, row, Part(number, self.slices) if divided else None)
            kernel.store_rows(_is_zero(number))
            kernel.store_columns()

    def _kernel(self, blocks: ir.Value) -> tuple[ir.Block, ir.InsertionPoint]:
        one = rtcalls.index(1)
        # Each launch combines the results of those before, besides its own.
        shared = arith.ConstantOp(ir.IntegerType.get_signless(32), self.job.scratch(self.tile.exchanges)).result
        # No more rows than that come here; the grid is known to be within the hardware's limits by it.
        rows = arith.MinUIOp(self.job.space.rows.value, rtcalls.index(MANY_ROWS)).result
        grid, block = (blocks, rows, one), (rtcalls.index(self.tile.threads), one, one)
        op = gpu.LaunchOp(grid, block, dynamic_shared_memory_size=shared).operation
        self.tile.mark(op, self.job.region)
        body = op.regions[0].blocks[0]
        with ir.InsertionPoint(body):
            end = gpu.TerminatorOp()
        return body, ir.InsertionPoint(end)

    def _begun(self, body: ir.Block, row: ir.Value, part: Part | None) -> RowKernel:
        """A kernel that knows what the launches before have found, for its row."""
        kernel = RowKernel(self.job, self.tile, body)
        kernel.begin(row, part)
        for member, memories in self.known.items():
            start, reducer = kernel.code.initial(member), _reducer(member)
            neutral = reducer.neutral(start)
            loop = scf.ForOp(kernel.lane, self.slices, rtcalls.index(self.tile.group), neutral)
            with ir.InsertionPoint(loop.body):
                other = [memref.LoadOp(memory, [row, loop.induction_variable]).result for memory in memories]
                scf.YieldOp(reducer.combine(list(loop.inner_iter_args), other))
            done = kernel.exchange.all(reducer, list(loop.results), neutral)
            kernel.code.rows[member] = reducer.conclude(start, done)
            kernel.prepare(member.level)
        return kernel


def _is_zero(value: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, value, rtcalls.index(0)).result


def _reducer(member: Member) -> Reducer:
    assert member.reducer is not None
    return member.reducer
