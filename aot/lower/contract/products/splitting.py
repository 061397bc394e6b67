"""A sum in several parts: when tiles are too few for a GPU, blocks share the loop over ``k``.

In: a problem, and the tile of its kernel. Out: a Split: how many parts, how deep each is, and memory for their sums; a
kernel that adds the parts up, in order, and does the epilogue. With one part that kernel is not launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower.contract.codegen import tiles
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.epilogue import Array, Epilogue, Place, Total, constant_index
from aot.lower.contract.products.problem import Problem
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.fast.regions.places import VECTOR_BYTES, Extent
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.tiling import CONTRACTIONS

_BLOCKS = 256
"""That fill a large GPU, of most kernels."""
_LEAST_DEPTH = 4
"""Tiles of depth that a part has."""
_MOST = 16
"""Parts."""
_THREADS = 256
_AT_A_TIME = 4
"""Parts that are read together."""


@dataclass(frozen=True, eq=False)
class Split:
    """The parts of a sum; numbers are indices of host code."""

    parts: Extent
    depth: Word
    """Of a part, in elements."""
    sums: Array
    """Indexed by the part, then as the result is."""
    buffer: ir.Value

    @property
    def epilogue(self) -> Epilogue:
        """Stores a part's sums."""
        return Epilogue(None, ((self.sums, Total()),))

    @property
    def width(self) -> int:
        """Sums in a vector."""
        return VECTOR_BYTES // rtcalls.storage_bytes(ir.MemRefType(self.sums.memory.type).element_type)


@dataclass(frozen=True, eq=False)
class Wish:
    """Tiles that compute the problem if a condition holds, and none before it does."""

    condition: ir.Value | bool
    rows: int
    columns: int
    depth: int
    """In elements."""
    in_parts: bool
    """Whether their kernel can do a part of the sum."""
    fill: int = _BLOCKS
    """Blocks that fill a large GPU."""


def plan(problem: Problem, wishes: Sequence[Wish]) -> Split | None:
    """How to split for the first wish that is met, or else the last one; None when it is certain that nothing is."""
    possible = [wish for wish in wishes if wish.condition is not False]
    certain = next((number for number, wish in enumerate(possible) if wish.condition is True), len(possible) - 1)
    if all(_static_parts(problem, wish) == 1 for wish in possible[: certain + 1]):
        return None
    one = Word(rtcalls.index(1))
    names = ("rows", "columns", "depth", "in_parts", "fill")
    rows, columns, depth, least, fill = (_chosen(wishes, name) for name in names)
    down = Word(arith.CeilDivUIOp(problem.m.value, rows.value).result)
    across = Word(arith.CeilDivUIOp(problem.n.value, columns.value).result)
    steps = Word(arith.CeilDivUIOp(problem.k.value, depth.value).result)
    wanted = (fill // _at_least(down * across * Word(problem.batches()), one)).least(_MOST)
    parts = _at_least(wanted.least(steps // _LEAST_DEPTH) * least, one)
    each = Word(arith.CeilDivUIOp(steps.value, parts.value).result)
    # As few parts as have that depth: none is empty.
    parts = _at_least(Word(arith.CeilDivUIOp(steps.value, _at_least(each, one).value).result), one)
    sums, buffer = memory(problem, parts)
    return Split(Extent(parts.value, None), each * depth, sums, buffer)


def _static_parts(problem: Problem, wish: Wish) -> int | None:
    """Parts for a wish, as the code of the plan computes them; None where extents are not known."""
    if not wish.in_parts:
        return 1
    extents = [each.static for each in (problem.m, problem.n, problem.k, *problem.batch)]
    if None in extents:
        return None
    m, n, k, *batch = (each or 0 for each in extents)
    blocks = math.prod([-(-m // wish.rows), -(-n // wish.columns), *batch])
    return max(1, min(wish.fill // max(1, blocks), _MOST, -(-k // wish.depth) // _LEAST_DEPTH))


def _chosen(wishes: Sequence[Wish], name: str) -> Word:
    """A number of the first wish that is met."""
    found = Word(rtcalls.index(int(getattr(wishes[-1], name))))
    for wish in reversed(wishes[:-1]):
        mine = Word(rtcalls.index(int(getattr(wish, name))))
        if isinstance(wish.condition, bool):
            found = mine if wish.condition else found
        else:
            found = mine.where(wish.condition, found)
    return found


def _at_least(one: Word, other: Word) -> Word:
    return Word(arith.MaxUIOp(one.value, other.value).result)


def memory(problem: Problem, parts: Word) -> tuple[Array, ir.Value]:
    """Sums of all parts, in rows of whole vectors; none for a single part. A view, and the buffer."""
    lanes = VECTOR_BYTES // rtcalls.storage_bytes(problem.accumulator)
    extents = [*(each.value for each in problem.batch), problem.m.value]
    pitch = Word(problem.n.value).tiles(lanes) * lanes
    steps = [pitch]
    for extent in reversed(extents):
        steps.insert(0, steps[0] * Word(extent))
    total = (steps[0] * parts).where(Word(rtcalls.index(1)).below(parts), 0)
    dynamic, free = rtcalls.DYNAMIC, rtcalls.DYNAMIC_STRIDE
    buffer = memref.AllocOp(ir.MemRefType.get([dynamic], problem.accumulator), [total.value], []).result
    rank = len(extents) + 2
    sizes, strides = [dynamic] * rank, [*([free] * (rank - 1)), 1]
    kind = ir.MemRefType.get(sizes, problem.accumulator, ir.StridedLayoutAttr.get(0, strides))
    values = [parts.value, *extents, problem.n.value]
    view = memref.ReinterpretCastOp(
        kind, buffer, [], values, [each.value for each in steps], [0], sizes, strides
    ).result
    return Array(view, (*(Extent(each.value, None) for each in steps), constant_index(1))), buffer


def launch(wishes: Sequence[Wish], emitters: Sequence[Callable[[], None]]) -> None:
    """Emit the kernels of all wishes that may be met, in branches; the last one needs no condition."""
    conditions = [*(wish.condition for wish in wishes[:-1]), True]
    branches.first(zip(conditions, emitters, strict=True))


def combine(problem: Problem, split: Split | None, wide: ir.Value | bool, width: int) -> None:
    """Launch the kernel that adds the parts up, if there are several, and free their memory."""
    if split is None:
        return

    def add(lanes: int) -> None:
        branches.either(
            arith.CmpIOp(arith.CmpIPredicate.ugt, split.parts.value, rtcalls.index(1)).result,
            lambda: _launch(problem, split, lanes),
            lambda: None,
        )

    branches.either(wide, lambda: add(width), lambda: add(1))
    memref.DeallocOp(split.buffer)


def _launch(problem: Problem, split: Split, width: int) -> None:
    across = Word(problem.n.value).tiles(width)
    total = Word(problem.batches()) * Word(problem.m.value) * across
    one = rtcalls.index(1)
    op = gpu.LaunchOp((total.tiles(_THREADS).value, one, one), (rtcalls.index(_THREADS), one, one)).operation
    tiling.mark(op, CONTRACTIONS, 0, "combine", {"threads": _THREADS, "width": width})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number = Word(body.arguments[0]) * _THREADS + Word(body.arguments[3])
        with branches.guard(number.below(total)):
            _element(problem, split, _place(problem, number, across, width))


def _place(problem: Problem, number: Word, across: Word, width: int) -> Place:
    rest, column = number // across, number % across * width
    rows = Word(problem.m.value)
    outer, row = rest // rows, rest % rows
    batch: list[ir.Value] = []
    for each in reversed(problem.batch):
        batch.insert(0, (outer % Word(each.value)).value)
        outer = outer // Word(each.value)
    return Place(tuple(batch), row.value, column.value, width)


def _element(problem: Problem, split: Split, at: Place) -> None:
    first = _sums(split, rtcalls.index(0), at)
    loop = scf.ForOp(rtcalls.index(1), split.parts.value, rtcalls.index(1), [first])
    # Else LLVM takes so many at a time, and ptxas so many of these again.
    tiles.unrolled(loop.operation, _AT_A_TIME)
    with ir.InsertionPoint(loop.body):
        value = _sums(split, loop.induction_variable, at)
        is_float = isinstance(problem.accumulator, ir.FloatType)
        add = arith.AddFOp if is_float else arith.AddIOp
        scf.YieldOp([add(loop.inner_iter_args[0], value).result])
    problem.epilogue.store(problem.epilogue.values(loop.results[0], at), at)


def _sums(split: Split, part: ir.Value, at: Place) -> ir.Value:
    indices: Sequence[ir.Value] = [part, *at.indices]
    sums = split.sums.memory
    if at.width == 1:
        return memref.LoadOp(sums, indices).result
    return load_vector(sums, indices, at.width, ir.MemRefType(sums.type).element_type)
