"""Parallel loops of host code become launches.

In: functions on buffers with linalg, affine and scf loops. Out: the same with a ``gpu.launch`` for every outermost
parallel nest; what is not parallel stays, for ``leftovers``.

``scf.parallel (%i, %j) = (0, 0) to (%m, %n) step (1, 1) { body }``  becomes, with a block of 32 x 8 threads,
``gpu.launch blocks(ceil(%n / 32), ceil(%m / 8), 1) threads(32, 8, 1) { if (%j < %n and %i < %m) { body } }``.

Upstream's tiling and mapping passes take one list of tile sizes for all ranks, and leave nests of other forms on
the host; a nest is simple enough to be built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.general import accumulate, fusion, interchange, schedule
from aot.lower.general.schedule import Nest, Schedule
from aot.lower.gpumodule import forward
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tiling
from aot.lower.launches.nests import Loops, move_body, scratch_to_stack, to_loops
from aot.model import Function
from aot.settings.wishes import GENERAL

_FROM_LINALG = ("func.func(scf-forall-to-parallel)", "func.func(convert-linalg-to-parallel-loops)")
_TO_PARALLEL = ("func.func(affine-parallelize)", "lower-affine", "canonicalize", "cse")
_CLEAN = ("lower-affine", "canonicalize", "cse")

_SCRATCH_BYTES = 1024
"""Largest buffer that every thread may have for itself; it takes local memory for all threads of the GPU."""
_DEVICE_DIALECTS = frozenset({"arith", "math", "index", "complex", "vector", "scf", "ub", "affine"})
_DEVICE_OPS = frozenset(
    {"memref.load", "memref.store", "memref.subview", "memref.cast", "memref.reinterpret_cast", "memref.view"}
    | {"memref.collapse_shape", "memref.expand_shape", "memref.transpose", "memref.dim", "memref.rank"}
    | {"memref.alloca", "memref.atomic_rmw", "memref.generic_atomic_rmw", "memref.atomic_yield", "memref.get_global"}
    | {"memref.extract_strided_metadata", "memref.extract_aligned_pointer_as_index", "memref.assume_alignment"}
    | {"memref.memory_space_cast", "memref.reshape", "memref.alloca_scope", "memref.alloca_scope.return"}
    | {"cf.assert", "gpu.printf"}
)


def emit(module: ir.Module, functions: Sequence[Function]) -> None:
    """Make the launches."""
    interchange.parallel_first(module)
    accumulate.mark_user_loops(module, present=True)
    mlir.run_passes(module, _FROM_LINALG, "making loops of linalg")
    accumulate.carry(module)
    accumulate.mark_user_loops(module, present=False)
    mlir.run_passes(module, _TO_PARALLEL, "making loops parallel")
    fusion.fuse(module, functions)
    forward.stores_to_loads(module)
    while nests := [op for op in mlir.walk(module) if _is_outermost(op)]:
        for nest in nests:
            emit_nest(nest)
    mlir.run_passes(module, _CLEAN, "cleaning up launches")


def emit_nest(nest: ir.Operation) -> None:
    """A launch of one ``scf.parallel``; or a host loop around the nests inside, where only the host can do the work."""
    scratch_to_stack(nest, _SCRATCH_BYTES)
    if not _fits_device(nest):
        to_loops(nest)
    else:
        _launch(nest, schedule.choose(_facts(nest)))


def _is_outermost(op: ir.Operation) -> bool:
    """Parallel, without results (reductions over parallel loops run in one thread), and not in another such loop."""
    if op.name != "scf.parallel" or len(op.results):
        return False
    return not any(each.name == "scf.parallel" or each.name in mlir.KERNEL_SCOPES for each in mlir.parents(op))


def _fits_device(nest: ir.Operation) -> bool:
    return all(op.name.split(".")[0] in _DEVICE_DIALECTS or op.name in _DEVICE_OPS for op in mlir.walk(nest))


def _facts(nest: ir.Operation) -> Nest:
    loop = Loops.of(nest)
    has_loops = any(op != nest and op.name in ("scf.for", "scf.while", "scf.parallel") for op in mlir.walk(nest))
    return Nest(tuple(_static_extent(*bounds) for bounds in loop.bounds), has_loops)


def _static_extent(lower: ir.Value, upper: ir.Value, step: ir.Value) -> int | None:
    low, high, by = literals.whole(lower), literals.whole(upper), literals.whole(step)
    if low is None or high is None or by is None:
        return None
    return max(0, -(-(high - low) // by))


def _launch(nest: ir.Operation, chosen: Schedule) -> None:
    loop = Loops.of(nest)
    with ir.InsertionPoint(nest), nest.location:
        extents = [_extent(*bounds) for bounds in loop.bounds]
        axes = _Axes.of(extents)
        grid = [_ceildiv(extent, threads) for extent, threads in zip(axes.extents, chosen.block, strict=True)]
        launch = gpu.LaunchOp(tuple(grid), tuple(rtcalls.index(each) for each in chosen.block)).operation
        sizes = dict(zip(("threads", "threads-y", "threads-z"), chosen.block, strict=True))
        tiling.mark(launch, GENERAL, 0, chosen.name, sizes)
        body = launch.regions[0].blocks[0]
        with ir.InsertionPoint(body):
            positions, inside = _positions(body, axes, chosen)
            if inside is not None:
                guard = scf.IfOp(inside)
            end = gpu.TerminatorOp().operation
            if inside is not None:
                with ir.InsertionPoint(guard.then_block):
                    end = scf.YieldOp([]).operation
        with ir.InsertionPoint(end):
            indices = _loop_indices(positions, extents, loop)
    move_body(nest, indices, end)


@dataclass(frozen=True)
class _Axes:
    """Extents of the launch's three axes, x first: the two innermost loops, and the product of all others."""

    extents: tuple[ir.Value, ir.Value, ir.Value]

    @staticmethod
    def of(extents: Sequence[ir.Value]) -> _Axes:
        one = rtcalls.index(1)
        inner = [*reversed(extents)]
        rest = one
        for extent in inner[2:]:
            rest = arith.MulIOp(rest, extent).result if rest is not one else extent
        return _Axes((inner[0], inner[1] if len(inner) > 1 else one, rest))


def _extent(lower: ir.Value, upper: ir.Value, step: ir.Value) -> ir.Value:
    """Iterations of a loop; 0 when it runs backwards."""
    static = _static_extent(lower, upper, step)
    if static is not None:
        return rtcalls.index(static)
    span = upper if literals.whole(lower) == 0 else arith.SubIOp(upper, lower).result
    span = arith.MaxSIOp(span, rtcalls.index(0)).result
    return span if literals.whole(step) == 1 else _ceildiv(span, step)


def _ceildiv(value: ir.Value, by: ir.Value | int) -> ir.Value:
    if isinstance(by, int):
        static = literals.whole(value)
        if static is not None:
            return rtcalls.index(-(-static // by))
        by = rtcalls.index(by)
    less = arith.SubIOp(by, rtcalls.index(1)).result
    return arith.DivUIOp(arith.AddIOp(value, less).result, by).result


def _positions(body: ir.Block, axes: _Axes, chosen: Schedule) -> tuple[list[ir.Value], ir.Value | None]:
    """Position of the thread on each axis, and whether it is inside; None when every thread is."""
    positions, inside = [], None
    for axis, (extent, threads) in enumerate(zip(axes.extents, chosen.block, strict=True)):
        first = arith.MulIOp(body.arguments[axis], rtcalls.index(threads)).result
        position = arith.AddIOp(first, body.arguments[3 + axis]).result
        positions.append(position)
        static = literals.whole(extent)
        if static is not None and static % threads == 0:
            continue
        below = arith.CmpIOp(arith.CmpIPredicate.slt, position, extent).result
        inside = below if inside is None else arith.AndIOp(inside, below).result
    return positions, inside


def _loop_indices(positions: list[ir.Value], extents: list[ir.Value], loop: Loops) -> list[ir.Value]:
    """Value of each loop's index, outermost first."""
    inner = [*reversed(extents)]
    steps = positions[: min(2, len(inner))]
    rest = positions[2]
    for extent in inner[2:-1]:
        steps.append(arith.RemUIOp(rest, extent).result)
        rest = arith.DivUIOp(rest, extent).result
    if len(inner) > 2:
        steps.append(rest)
    return [
        arith.AddIOp(lower, arith.MulIOp(position, step).result).result
        for position, (lower, _, step) in zip(reversed(steps), loop.bounds, strict=True)
    ]
