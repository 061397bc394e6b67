"""Which kernel computes a problem: by its types when the package is built, by its extents in host code.

In: a Problem at the insertion point of its launch. Out: launches, in branches of host code where several may run.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, scf

from aot.lower import rtcalls
from aot.lower.contract import epilogue, ffma, problem
from aot.lower.contract.contraction import Contraction
from aot.lower.contract.problem import Factor, Problem
from aot.lower.contract.words import Word
from aot.lower.fast.places import VECTOR_BYTES, Extent

_SUMS = frozenset({"f32", "f64", "i32", "i64"})
_ENOUGH = 128
"""Tiles that keep most of a large GPU busy."""

Emitter = Callable[[], None]


def covers(contraction: Contraction) -> bool:
    """Whether a kernel has sums of the type: narrower ones keep their order, which the general schedule does."""
    return str(ir.MemRefType(contraction.out.value.type).element_type) in _SUMS


def launch(job: Problem) -> None:
    """Emit the launches at the insertion point."""
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
            _many_tiles(job, large[0]),
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


def _many_tiles(job: Problem, side: int) -> ir.Value | bool:
    extents = [job.m, job.n, *job.batch]
    if all(each.static is not None for each in extents):
        total = 1
        for number, each in enumerate(extents):
            assert each.static is not None
            total *= -(-each.static // side) if number < 2 else each.static
        return total >= _ENOUGH
    tiles = Word(job.m.value).tiles(side) * Word(job.n.value).tiles(side) * Word(job.batches())
    return arith.CmpIOp(arith.CmpIPredicate.uge, tiles.value, rtcalls.index(_ENOUGH)).result


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
