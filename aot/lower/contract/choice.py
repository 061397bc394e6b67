"""Which kernel computes a problem: by its types when the package is built, by its extents in host code.

In: a Problem at the insertion point of its launch. Out: launches, in branches of host code where several may run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from aot.arch import Capability
from aot.lower import rtcalls
from aot.lower.contract import epilogue, ffma, mmasync, problem
from aot.lower.contract.contraction import Contraction
from aot.lower.contract.instructions import Kind
from aot.lower.contract.operand import Operand
from aot.lower.contract.problem import Factor, Problem
from aot.lower.contract.words import Word
from aot.lower.fast.places import VECTOR_BYTES, Extent

_SUMS = frozenset({"f32", "f64", "i32", "i64"})
_ENOUGH = 96
"""Tiles that keep most of a large GPU busy."""
_AMPERE = (8, 0)
_TILES = (
    mmasync.Tile(128, 256, 128, 64, 64, 3),
    mmasync.Tile(128, 128, 128, 64, 64, 3),
    mmasync.Tile(64, 64, 128, 32, 32, 4),
)
"""Largest first."""
_EVERYWHERE = 99 * 1024
"""Bytes of shared memory that a block may have on every architecture from sm_80 on."""

Emitter = Callable[[], None]


@dataclass(frozen=True)
class Images:
    """What the kernels are compiled for."""

    capabilities: tuple[Capability, ...] = ()
    """Of all images; empty where that is not known, and of no consequence."""

    def least(self, capability: Capability) -> bool | None:
        """Whether all images have at least this capability; None: some."""
        found = {each >= capability for each in self.capabilities}
        return None if len(found) > 1 else found != {False}


def covers(contraction: Contraction) -> bool:
    """Whether a kernel has sums of the type: narrower ones keep their order, which the general schedule does."""
    return str(ir.MemRefType(contraction.out.value.type).element_type) in _SUMS


def launch(job: Problem, images: Images) -> None:
    """Emit the launches at the insertion point."""
    kind = _kind(job)
    served = images.least(_AMPERE)
    if kind is None or served is False:
        _on_ordinary_units(job)
        return
    aligned = problem.all_of([_is_copied(job, each, kind) for each in job.factors])
    condition = aligned if served else problem.all_of([aligned, rtcalls.serves("sm_80")])
    need = "" if served else "sm_80"
    branch(condition, lambda: _on_tensor_cores(job, kind, need), lambda: _on_ordinary_units(job))


def _kind(job: Problem) -> Kind | None:
    """What tensor cores multiply, if they do: elements as they lie in memory, widened exactly."""
    left, right = (_multiplicand(each) for each in job.factors)
    if left != right or left is None or left.sums != str(job.accumulator):
        return None
    return left


def _multiplicand(factor: Factor) -> Kind | None:
    names = tuple(each.name for each in factor.conversions)
    return _KINDS.get((str(factor.element), names))


_KINDS = {
    ("f16", ("arith.extf",)): Kind("f16", 2, "f32"),
    ("bf16", ("arith.extf",)): Kind("bf16", 2, "f32"),
    ("i8", ("arith.extsi",)): Kind("s8", 1, "i32"),
    ("i8", ("arith.extui",)): Kind("u8", 1, "i32"),
}


def _is_copied(job: Problem, factor: Factor, kind: Kind) -> ir.Value | bool:
    """Whether asynchronous copies can read it; fragments of single bytes can be transposed by nothing."""
    if factor.turned and kind.bytes != 2:
        return False
    return problem.is_wide(factor.memory, factor.strides)


def _on_tensor_cores(job: Problem, kind: Kind, need: str) -> None:
    width = epilogue.width(job.epilogue)
    wide = problem.all_of(_stores(job, width))
    left, right = (Operand(problem.address(each.memory), each.batch, each.pitch, each.turned) for each in job.factors)
    work = mmasync.Job(job, kind, left, right, width, wide)

    def choose(tiles: Sequence[mmasync.Tile]) -> None:
        tile, *smaller = tiles
        if not smaller:
            mmasync.launch(work, tile, need)
            return
        fits = tile.shared_bytes <= _EVERYWHERE or _has_shared(tile.shared_bytes)
        condition = problem.all_of([_many_tiles(job, tile.rows, tile.columns), fits])
        branch(condition, lambda: mmasync.launch(work, tile, need), lambda: choose(smaller))

    choose(_TILES)


def _has_shared(size: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.uge, rtcalls.shared_limit(), rtcalls.index(size)).result


def _on_ordinary_units(job: Problem) -> None:
    width = epilogue.width(job.epilogue)
    sides = (_is_wide(job, job.left, job.m), _is_wide(job, job.right, job.n))
    aligned = problem.all_of([*sides, *_stores(job, width)])
    if rtcalls.storage_bytes(job.accumulator) == 4:
        large, small = (128, 16), (64, 16)
    else:
        large, small = (64, 8), (32, 8)
    branch(
        aligned,
        lambda: branch(
            _many_tiles(job, large[0], large[0]),
            lambda: ffma.launch(job, ffma.Tile(*large, wide=True, width=width)),
            lambda: ffma.launch(job, ffma.Tile(*small, wide=True, width=width)),
        ),
        lambda: ffma.launch(job, ffma.Tile(*large, wide=False, width=1)),
    )


def _is_wide(job: Problem, factor: Factor, outer: Extent) -> ir.Value | bool:
    """Whether vectors are aligned, and the contiguous loop ends with a whole one."""
    along = outer if factor.turned else job.k
    whole = problem.is_multiple(along, max(1, VECTOR_BYTES // rtcalls.storage_bytes(factor.element)))
    return problem.all_of([whole, problem.is_wide(factor.memory, factor.strides)])


def _stores(job: Problem, width: int) -> list[ir.Value | bool]:
    arrays = job.epilogue.arrays()
    wide = [problem.is_wide(each.memory, each.strides) for each in arrays if each.along_n]
    return [problem.is_multiple(job.n, width), *wide]


def _many_tiles(job: Problem, rows: int, columns: int) -> ir.Value | bool:
    """Whether tiles of the size are enough for the whole GPU."""
    sides = ((job.m, rows), (job.n, columns), *((each, 1) for each in job.batch))
    if all(each.static is not None for each, _ in sides):
        total = 1
        for each, size in sides:
            total *= -(-(each.static or 0) // size)
        return total >= _ENOUGH
    count = Word(rtcalls.index(1))
    for each, size in sides:
        count = Word(each.value).tiles(size) * count
    return arith.CmpIOp(arith.CmpIPredicate.uge, count.value, rtcalls.index(_ENOUGH)).result


def branch(condition: ir.Value | bool, then: Emitter, otherwise: Emitter) -> None:
    """Emit one of two, or both under the condition."""
    if isinstance(condition, bool):
        (then if condition else otherwise)()
        return
    either = scf.IfOp(condition, has_else=True)
    for block, emitter in ((either.then_block, then), (either.else_block, otherwise)):
        with ir.InsertionPoint(block):
            emitter()
            scf.YieldOp([])
