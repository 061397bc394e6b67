"""Parallel loops that say themselves where they run become launches as they are: what a transform script made.

In: functions after buffers are settled. Out: the same with a ``gpu.launch`` for every outermost ``scf.forall`` that is
mapped to blocks (or to threads of one block); loops inside that are mapped to threads become conditions on the
thread, each followed by a barrier. Loops without a mapping are left to other schedules.

``scf.forall (%i) in (%n) { scf.forall (%j) in (256) {…} {mapping = [#gpu.thread<x>]} } {mapping = [#gpu.block<x>]}``
becomes ``gpu.launch blocks(%n, 1, 1) threads(256, 1, 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import effects, opwalk
from aot.lower.fast.rowwise import exchange
from aot.lower.general import mappedloop
from aot.lower.general.mappedloop import BLOCK, THREAD, Loop
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tiling
from aot.lower.launches.nests import move_body
from aot.targets.arch import MAX_THREADS_PER_BLOCK

_SCRATCH_BYTES = 1024
"""Largest buffer that every thread may have for itself."""
_ALIGNMENT = 128
"""Bytes, of buffers in shared memory."""
_WORKGROUP = "#gpu.address_space<workgroup>"
Sizes = tuple[int, int, int]


def emit(module: ir.Module) -> None:
    """Make the launches."""
    loops = [op for op in opwalk.named(module, mappedloop.FORALL) if mappedloop.is_mapped(op) and _is_outermost(op)]
    for op in loops:
        _launch(op)


def _is_outermost(op: ir.Operation) -> bool:
    around = list(mlir.parents(op))
    return not any(each.name in mlir.KERNEL_SCOPES or mappedloop.is_mapped(each) for each in around)


def refused(op: ir.Operation, message: str) -> LoweringError:
    """The error for a mapping that cannot be launched."""
    return LoweringError(
        f"{op.context.aot_path}: a parallel loop cannot be launched as it is mapped",
        diagnostics=(mlir.diagnostic_at(op, message),),
        hint="outer loops are mapped to #gpu.block, loops inside them to #gpu.thread, with x, y, z or linear_dim_0, …",
    )


def _launch(op: ir.Operation) -> None:
    outer = _loop(op)
    inner = [_loop(each) for each in opwalk.named(op, mappedloop.FORALL) if each != op and mappedloop.is_mapped(each)]
    threads = inner if outer.kind == BLOCK else [outer]
    if wrong := next((each for each in inner if each.kind != THREAD or outer.kind == THREAD), None):
        raise refused(wrong.op, "a mapped loop inside another one must be mapped to threads of blocks")
    block = _block(op, threads)
    _check(op, threads, several=max(block) > 1)
    shared = _memory(op, threads)
    with ir.InsertionPoint(op), op.location:
        one = rtcalls.index(1)
        grid = outer.grid() if outer.kind == BLOCK else (one, one, one)
        launch = gpu.LaunchOp(
            tuple(grid), tuple(rtcalls.index(each) for each in block), dynamic_shared_memory_size=_bytes(shared)
        ).operation
        sizes = {"threads": block[0], "threads-y": block[1], "threads-z": block[2]}
        tiling.mark(launch, "script", 0, "script", sizes)
        body = launch.regions[0].blocks[0]
        with ir.InsertionPoint(body):
            end = gpu.TerminatorOp().operation
    _share(shared, body)
    places = list(body.arguments)
    for each in inner:
        _to_condition(each, places[3:6], block)
    if outer.kind == BLOCK:
        with ir.InsertionPoint(end), op.location:
            indices = outer.indices(outer.positions(places[:3], places[6:9]))
        move_body(op, indices, end)
    else:
        op.move_before(end)
        _to_condition(outer, places[3:6], block)


def _loop(op: ir.Operation) -> Loop:
    loop = mappedloop.read(op)
    if isinstance(loop, str):
        raise refused(op, loop)
    return loop


def _block(op: ir.Operation, threads: Sequence[Loop]) -> Sizes:
    """Threads of a block along x, y, z: enough for every loop."""
    sizes, together = [1, 1, 1], 1
    for each in threads:
        extents = each.static_extents()
        if extents is None:
            raise refused(each.op, "the number of threads must be known when the source is compiled")
        for axis, extent in zip(each.axes, extents, strict=True):
            if each.linear:
                continue
            sizes[axis] = max(sizes[axis], extent)
        if each.linear:
            together = max(together, each.count())
    rest = sizes[1] * sizes[2]
    sizes[0] = max(sizes[0], -(-together // rest))
    if sizes[0] * rest > MAX_THREADS_PER_BLOCK:
        raise refused(op, f"{sizes[0] * rest} threads in a block; at most {MAX_THREADS_PER_BLOCK} are possible")
    return sizes[0], sizes[1], sizes[2]


def _check(op: ir.Operation, threads: Sequence[Loop], *, several: bool) -> None:
    """What is done by a block, and not by one of its threads, must not write."""
    mine = {each.op for each in threads}
    if nested := next((each for each in threads if each.op != op and mine & set(mlir.parents(each.op)) - {op}), None):
        raise refused(nested.op, "a loop mapped to threads inside another one")
    for each in mlir.walk(op):
        writes = each.name in effects.WRITES or (each.name.startswith("linalg.") and len(each.regions))
        if several and writes and not mine & {*mlir.parents(each)}:
            raise refused(each, f"'{each.name}' is mapped to blocks, but not to threads: all of them would write")


def _memory(op: ir.Operation, threads: Sequence[Loop]) -> list[tuple[ir.Operation, int]]:
    """Buffers inside: a thread's own go to its stack; those of blocks with their places in shared memory, for later."""
    mine = {each.op for each in threads}
    for free in opwalk.named(op, "memref.dealloc"):
        free.erase()
    shared: list[tuple[ir.Operation, int]] = []
    end = 0
    for alloc in opwalk.named(op, "memref.alloc"):
        kind = ir.MemRefType(alloc.results[0].type)
        if not kind.has_static_shape:
            raise refused(alloc, "a buffer inside a kernel needs static extents")
        size = math.prod(kind.shape) * rtcalls.storage_bytes(kind.element_type)
        if str(kind.memory_space) == _WORKGROUP:
            shared.append((alloc, end))
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        elif size > _SCRATCH_BYTES or (mine and not mine & set(mlir.parents(alloc))):
            raise refused(alloc, f"a buffer of {size} bytes inside a kernel: give it the memory space {_WORKGROUP}")
        else:
            with ir.InsertionPoint(alloc), alloc.location:
                _replace(alloc, memref.AllocaOp(kind, [], []).result)
    return shared


def _bytes(shared: Sequence[tuple[ir.Operation, int]]) -> ir.Value | None:
    """Of dynamic shared memory; None for none."""
    if not shared:
        return None
    alloc, offset = shared[-1]
    kind = ir.MemRefType(alloc.results[0].type)
    size = offset + math.prod(kind.shape) * rtcalls.storage_bytes(kind.element_type)
    return arith.ConstantOp(ir.IntegerType.get_signless(32), size).result


def _share(shared: Sequence[tuple[ir.Operation, int]], body: ir.Block) -> None:
    """Put the buffers of a block into its shared memory."""
    for alloc, offset in shared:
        with ir.InsertionPoint.at_block_begin(body), alloc.location:
            memory = exchange.shared_memory()
            _replace(alloc, memref.ViewOp(alloc.results[0].type, memory, rtcalls.index(offset), []).result)


def _replace(alloc: ir.Operation, value: ir.Value) -> None:
    alloc.results[0].replace_all_uses_with(value)
    alloc.erase()


def _to_condition(loop: Loop, thread: Sequence[ir.Value], block: Sizes) -> None:
    """A loop over threads as code of those that it needs, and a barrier."""
    op = loop.op
    with ir.InsertionPoint(op), op.location:
        positions = loop.positions(thread, [rtcalls.index(each) for each in block])
        inside = loop.inside(thread, positions, block)
        indices = loop.indices(positions)
        end = op
        if inside is not None:
            branch = scf.IfOp(inside)
            with ir.InsertionPoint(branch.then_block):
                end = scf.YieldOp([]).operation
    if block != (1, 1, 1):
        with ir.InsertionPoint.after(op), op.location:
            gpu.BarrierOp()
    move_body(op, indices, end)
