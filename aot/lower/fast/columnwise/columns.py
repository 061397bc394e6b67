"""The kernels of a region whose rows are reduced: sums over columns and what is done with them.

In: a region with ``turned``, its places, and the width of vectors. Out: one launch or two. In the first one a block
takes some columns and every so many rows; where blocks share columns, each leaves one partial result for each column,
and a second launch combines these, in order, and finishes.

Neighbouring threads read neighbouring columns, so that every access is whole lines; partial results lie in a buffer of
the function's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.fast.columnwise.columnkernel import ColumnKernel, Row, load, shared_bytes, store
from aot.lower.fast.columnwise.columnshape import Form, Shape, Turns
from aot.lower.fast.region import FULL, PART, Region
from aot.lower.fast.regions import places
from aot.lower.fast.regions.places import is_wide
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling

_FIRST = Form(512, 32, 8)
_SECOND = Form(128, 8, 4)
_SHARED = 48 * 1024
"""Bytes of shared memory that leave room for several blocks on a multiprocessor."""
_RESIDENT = 2
"""Blocks of the first launch on a multiprocessor, with the registers for all loads of a turn at once."""
_BLOCKS = 264
"""Of the first launch, about, however few columns there are: two for each multiprocessor of an H100."""
_SHORT = 2048
"""Rows that the blocks of one launch manage in the time of a second one, each with a narrow strip of columns."""
_STRIPS = (8, 2)
"""Threads side by side then, at least, without vectors and with them: they read whole sectors of 32 bytes."""
_FLAT, _ACROSS = 32, 128
"""Rows that are so few that more threads may be side by side, and how many."""
_ENOUGH = 3
"""Blocks that must be wanted for the same columns before a second launch is worth its time."""


def launch(job: Job, width: int) -> None:
    """Emit the kernels at the insertion point; with vectors where memory is aligned."""
    if width == 1 or not _fits(job, width):
        _launch(job, 1)
        return
    everything = [*job.places.values(), *(place for _, place in job.stores)]
    wide = [place for place in everything if place.wide]
    whole = places.whole(wide, job.space, width)
    if whole is False:
        _launch(job, 1)
        return
    places.with_vectors(wide, whole, width, partial(_launch, job))


def _launch(job: Job, width: int) -> None:
    """The columns are a multiple of the width, and aligned."""
    job = _by_number(job)
    rows = job.space.rows.value
    short = arith.CmpIOp(arith.CmpIPredicate.ule, rows, rtcalls.index(_SHORT)).result
    across = arith.SelectOp(short, _narrow(job, width), rtcalls.index(_FIRST.across)).result
    shape = Shape.of(_form(job), rows, _vectors(job, width), across)
    tiles = _tiles(job, width, shape)
    slices = _slices(job, tiles, shape, short)
    alone = arith.CmpIOp(arith.CmpIPredicate.eq, slices, rtcalls.index(1)).result

    def in_two() -> None:
        memories = _memories(job, slices)
        _first(job, width, shape, (tiles, slices), memories)
        _second(job, width, slices, memories)
        for memory in memories:
            memref.DeallocOp(memory)

    branches.either(alone, lambda: _first(job, width, shape, (tiles, slices), ()), in_two)


def _fits(job: Job, width: int) -> bool:
    """Whether running values can be vectors in shared memory."""
    kinds = [value.type for member in job.region.reductions for value in member.operation.yielded]
    return shared_bytes(job, width, _FIRST) <= _SHARED and all(is_wide(kind) for kind in kinds)


def _by_number(job: Job) -> Job:
    """Operands without gaps as lines of elements."""
    found = {}
    for source, place in job.places.items():
        flat = place.kind == FULL and place.flat
        found[source] = replace(place, memory=places.line(source.value, job.space)) if flat else place
    return replace(job, places=found)


def _narrow(job: Job, width: int) -> ir.Value:
    """Threads side by side so that blocks are enough for the device; power of two or not."""
    few = arith.CmpIOp(arith.CmpIPredicate.ule, job.space.rows.value, rtcalls.index(_FLAT)).result
    most = arith.SelectOp(few, rtcalls.index(_ACROSS), rtcalls.index(_FIRST.across)).result
    wanted = arith.DivUIOp(_vectors(job, width), rtcalls.index(_BLOCKS)).result
    return arith.MinUIOp(arith.MaxUIOp(wanted, rtcalls.index(_STRIPS[width > 1])).result, most).result


def _form(job: Job) -> Form:
    """Fewer rows in flight where each of them is read from several places."""
    sources = sum(source.kind in (FULL, PART) for source in job.region.sources())
    return replace(_FIRST, unroll=max(2, _FIRST.unroll >> max(0, sources - 1).bit_length()))


def _tiles(job: Job, width: int, shape: Shape) -> ir.Value:
    return arith.CeilDivUIOp(_vectors(job, width), shape.lanes).result


def _vectors(job: Job, width: int) -> ir.Value:
    """Of a row."""
    return arith.CeilDivUIOp(job.space.columns.value, rtcalls.index(width)).result


def _slices(job: Job, tiles: ir.Value, shape: Shape, short: ir.Value) -> ir.Value:
    """Blocks that share columns: no more than fill the device, each with as many turns as the others."""
    one = rtcalls.index(1)
    turns = arith.MaxUIOp(arith.CeilDivUIOp(job.space.rows.value, shape.reach).result, one).result
    wanted = arith.DivUIOp(rtcalls.index(_BLOCKS), arith.MaxUIOp(tiles, one).result).result
    enough = arith.CmpIOp(arith.CmpIPredicate.uge, wanted, rtcalls.index(_ENOUGH)).result
    wanted = arith.SelectOp(short, one, arith.SelectOp(enough, wanted, one).result).result
    each = arith.CeilDivUIOp(turns, wanted).result
    # Said once more, so that the grid is known to be within the hardware's limits.
    return arith.MinUIOp(arith.CeilDivUIOp(turns, each).result, rtcalls.index(_BLOCKS)).result


def _memories(job: Job, slices: ir.Value) -> list[ir.Value]:
    """Partial results: slices x columns, for each result of each reduction."""
    dynamic = ir.ShapedType.get_dynamic_size()
    kinds = [value.type for member in job.region.reductions for value in member.operation.yielded]
    sizes = [slices, job.space.columns.value]
    return [memref.AllocOp(ir.MemRefType.get([dynamic, dynamic], kind), sizes, []).result for kind in kinds]


def _kernel(job: Job, width: int, shape: Shape, blocks: Sequence[ir.Value], name: str) -> ir.Block:
    """A launch without code."""
    form, one = shape.form, rtcalls.index(1)
    shared = arith.ConstantOp(ir.IntegerType.get_signless(32), shared_bytes(job, width, form)).result
    op = gpu.LaunchOp((*blocks, one), (shape.threads, one, one), dynamic_shared_memory_size=shared).operation
    tiling.mark(op, job.region.kind, job.region.number, name, {**form.sizes(), "width": width}, [tiling.AS_NEEDED])
    op.attributes["nvvm.maxntid"] = ir.DenseI32ArrayAttr.get([form.threads])
    tiling.give_registers(op, _RESIDENT)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        gpu.TerminatorOp()
    return body


def _first(job: Job, width: int, shape: Shape, blocks: tuple[ir.Value, ir.Value], memories: Sequence[ir.Value]) -> None:
    """Leave partial results; without memory for them, finish: then all rows are the block's."""
    turns = Turns.of(shape, job.space.rows.value, blocks[1])
    body = _kernel(job, width, shape, blocks, "columns")
    with ir.InsertionPoint.at_block_terminator(body):
        kernel = ColumnKernel(job, width, shape, body)
        done = kernel.reduce(turns, body.arguments[1], kernel.elements)
        with branches.guard(kernel.is_first):
            if not memories:
                kernel.finish(done)
            for value, memory in zip(done, memories, strict=bool(memories)):
                store(value, memory, [body.arguments[1], kernel.column])


def _second(job: Job, width: int, slices: ir.Value, memories: Sequence[ir.Value]) -> None:
    shape = Shape.of(_SECOND, slices, _vectors(job, width))
    turns = Turns.of(shape, slices, rtcalls.index(1))
    body = _kernel(job, width, shape, (_tiles(job, width, shape), rtcalls.index(1)), "columns-finish")
    with ir.InsertionPoint.at_block_terminator(body):
        kernel = ColumnKernel(job, width, shape, body)

        def partial(row: Row) -> list[ir.Value]:
            return [load(memory, [row.number, kernel.column], width) for memory in memories]

        done = kernel.reduce(turns, rtcalls.index(0), lambda rows: map(partial, rows))
        with branches.guard(kernel.is_first):
            kernel.finish(done)


def misfit(region: Region) -> str:
    """Why columns of the region are no good way to run it."""
    for member in region.members:
        asks = any(op.operation.name == "linalg.index" for op in member.operation.body.operations)
        if member.reducer is None and asks:
            return "what is done with the results asks for an index"
        if len({each.level for each in region.reductions}) > 1:
            return "reductions that depend on each other"
    return ""
