"""Which tile of ``mma.sync`` computes a problem, and in how many parts.

In: a Problem whose factors tensor cores multiply. Out: its launches, chosen by host code where extents are known at
the call only: copies of factors that cannot be read as they are, the product, and the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith

from aot.lower import rtcalls
from aot.lower.contract import epilogue, extents, matvec, mmasync, packing, problem, splitting
from aot.lower.contract.instructions import Kind
from aot.lower.contract.mmasync import Job, Tile
from aot.lower.contract.problem import Factor, Problem, all_of, any_of
from aot.lower.contract.splitting import Split, Wish

_FLAT = Tile(16, 128, 128, 16, 32, 5)
"""For few rows: memory bounds the product, and many copies are under way."""
_TILES = (Tile(128, 256, 128, 64, 64, 3), Tile(128, 128, 128, 64, 64, 3), Tile(64, 64, 128, 32, 32, 4))
"""Largest first; the last one's sums may come in parts."""
_EVERYWHERE = 99 * 1024
"""Bytes of shared memory that a block may have on every architecture from sm_80 on."""

_KINDS = {
    ("f16", ("arith.extf",)): Kind("f16", 2, "f32"),
    ("bf16", ("arith.extf",)): Kind("bf16", 2, "f32"),
    ("i8", ("arith.extsi",)): Kind("s8", 1, "i32"),
    ("i8", ("arith.extui",)): Kind("u8", 1, "i32"),
}
"""Element type in memory, and how it is widened."""


def kind_of(job: Problem) -> Kind | None:
    """What tensor cores multiply, if they do: elements as they lie in memory, widened exactly."""
    left, right = (_multiplicand(each) for each in job.factors)
    return left if left == right and left is not None and left.sums == str(job.accumulator) else None


def _multiplicand(factor: Factor) -> Kind | None:
    return _KINDS.get((str(factor.element), tuple(each.name for each in factor.conversions)))


def _is_copied(factor: Factor, kind: Kind) -> ir.Value | bool:
    """Whether asynchronous copies can read it; fragments of single bytes can be transposed by nothing."""
    if factor.turned and kind.bytes != 2:
        return False
    return problem.is_wide(factor.memory, factor.strides)


def launch(job: Problem, kind: Kind, need: str) -> None:
    """Emit the launches at the insertion point; ``need``: the architecture of images that hold them."""
    width = epilogue.width(job.epilogue)
    vectors = matvec.Shape.of(job).wish(job)
    packed = [
        packing.operand(factor, (job.batch, outer, job.k), kind, any_of([_is_copied(factor, kind), vectors.condition]))
        for factor, outer in ((job.left, job.m), (job.right, job.n))
    ]
    left, right = (each.operand for each in packed)
    work = Job(job, kind, left, right, width, extents.whole_vectors(job, width))
    wishes = [vectors, *(_wish(job, kind, tile) for tile in (_FLAT, *_TILES))]
    split = splitting.plan(job, wishes)
    emitters = [lambda: matvec.launch(job, split), *(_emitter(work, tile, need, split) for tile in (_FLAT, *_TILES))]
    splitting.launch(wishes, emitters)
    splitting.combine(job, split, work.wide, width)
    for each in packed:
        each.free()


def _wish(job: Problem, kind: Kind, tile: Tile) -> Wish:
    """That a tile computes the problem: for few rows; else if there are enough such tiles, or none smaller."""
    if tile is _FLAT:
        condition = extents.at_most(job.m, tile.rows)
    else:
        fits = tile.shared_bytes <= _EVERYWHERE or _has_shared(tile.shared_bytes)
        condition = all_of([extents.many_tiles(job, tile.rows, tile.columns), fits])
    in_parts = tile in (_FLAT, _TILES[-1])
    return Wish(condition, tile.rows, tile.columns, tile.depth_bytes // kind.bytes, in_parts)


def _emitter(work: Job, tile: Tile, need: str, split: Split | None) -> Callable[[], None]:
    return lambda: mmasync.launch(work, tile, need, split if tile in (_FLAT, _TILES[-1]) else None)


def _has_shared(size: int) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.uge, rtcalls.shared_limit(), rtcalls.index(size)).result
