"""Products of one row: each element of the right factor is read once, and nothing is worth keeping.

In: a problem whose right factor is read in vectors of 16 bytes, and the parts of its sum. Out: a ``gpu.launch``.

Where columns are contiguous, the threads of a block lie across columns, and groups of them take turns at ``k``; where
``k`` is, a warp has a column and adds up across its lanes. Several reads of a thread are under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf, vector

from aot.arch import WARP
from aot.lower import codes, devicemath, imageneeds, rtcalls
from aot.lower.contract import epilogue, extents, instructions, tiles
from aot.lower.contract.epilogue import Place, accumulated
from aot.lower.contract.problem import Factor, Problem, all_of
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split, Wish
from aot.lower.contract.tiles import Block, Told
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies
from aot.lower.fast.accesses import load_vector
from aot.lower.fast.places import VECTOR_BYTES

Pair = tuple[ir.Value, ir.Value]
"""A left and a right factor."""
Products = Callable[[Sequence[Word]], list[Pair]]
"""Factors at places along ``k``."""

_THREADS = 256
_ACROSS = 16
"""Threads across columns."""
_UNDER_WAY = 8
"""Vectors that a thread reads at a time."""


@dataclass(frozen=True)
class Shape:
    """What a block computes."""

    turned: bool
    """Whether columns are contiguous in the right factor."""
    lanes: int
    """Elements of a vector."""
    under_way: int
    """Vectors that a thread reads at a time."""
    converts: bool = False
    """Whether GPUs convert the factors, which are small floats, by instructions."""

    @staticmethod
    def of(problem: Problem, *, converts: bool = False) -> Shape:
        """The shape for a problem."""
        lanes = VECTOR_BYTES // rtcalls.storage_bytes(problem.right.element)
        # Conversions of small floats take registers, spelled out most of all.
        small = any(codes.small_float(factor.element) for factor in problem.factors)
        under_way = _UNDER_WAY // (2 if converts else 4) if small else _UNDER_WAY
        return Shape(problem.right.turned, lanes, under_way, converts)

    @property
    def columns(self) -> int:
        return _ACROSS * self.lanes if self.turned else _THREADS // WARP

    @property
    def depth(self) -> int:
        """Elements along ``k`` of which a part has a multiple."""
        return _THREADS // _ACROSS * self.under_way if self.turned else WARP * self.lanes

    def wish(self, problem: Problem) -> Wish:
        """That this kernel computes it: one row, and vectors that are aligned and whole."""
        sides = ((problem.right, problem.n), *(() if self.turned else ((problem.left, problem.m),)))
        wide = [extents.is_wide(problem, factor, outer) for factor, outer in sides]
        along_k = self.turned or problem.left.along_k
        condition = all_of([extents.at_most(problem.m, 1), along_k, *wide])
        return Wish(condition, 1, self.columns, self.depth, in_parts=True)


def launch(problem: Problem, shape: Shape, split: Split | None, need: str = "") -> None:
    """Emit the kernel at the insertion point; ``need``: the architecture of images that hold it."""
    sums = rtcalls.storage_bytes(problem.accumulator)
    shared = _THREADS // _ACROSS * shape.columns * sums if problem.right.turned else 0
    inner = problem if split is None else replace(problem, batch=(split.parts, *problem.batch))
    told = Told("matvec", {"columns": shape.columns, "threads": _THREADS, "width": shape.lanes})
    with tiles.launch(inner, (1, shape.columns), _THREADS, shared, told) as block:
        block.launch.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2)
        if need:
            imageneeds.mark(block.launch, need)
        _Code(problem, shape, block, split).emit()


class _Code:
    """The code of one kernel."""

    def __init__(self, problem: Problem, shape: Shape, block: Block, split: Split | None) -> None:
        self.problem, self.shape, self.block, self.split = problem, shape, block, split
        self.first, self.behind, self.batch = constant(0), block.k, block.batch
        if split is not None:
            depth = narrow(split.depth.value)
            self.first, self.batch = narrow(block.batch[0]) * depth, block.batch[1:]
            self.behind = block.k.least(self.first + depth)
        self.kind = ir.VectorType.get([shape.lanes], problem.accumulator)

    def emit(self) -> None:
        if self.problem.right.turned:
            self._columns()
        else:
            self._rows()

    def _loaded(self, factor: Factor, outer: Word, k: Word, lanes: int) -> ir.Value:
        """One element, or a vector, as it lies in memory."""
        at = factor.indices(self.batch, outer.index(), k.index())
        if lanes == 1:
            return memref.LoadOp(factor.memory, at).result
        return load_vector(factor.memory, at, lanes, factor.element)

    def _pairs(self, outers: tuple[Word, Word], ks: Sequence[Word], lanes: tuple[int, int]) -> list[Pair]:
        """Factors at places along ``k``: all is on its way before anything waits for it."""
        left, right = self.problem.factors
        loaded = [(self._loaded(right, outers[1], k, lanes[1]), self._loaded(left, outers[0], k, lanes[0])) for k in ks]
        if self.shape.converts:
            return [(instructions.widened(one), instructions.widened(other)) for other, one in loaded]
        return [(left.converted(one), right.converted(other)) for other, one in loaded]

    def _columns(self) -> None:
        across, turn = self.block.thread % _ACROSS, self.block.thread // _ACROSS
        groups = _THREADS // _ACROSS
        column = self.block.n0 + across * self.shape.lanes
        clamped = column.where(column.below(self.block.n), 0)
        total = self._summed(turn, groups, lambda ks: self._products_of_columns(clamped, ks))
        kept = Shared(self.problem.accumulator, [groups, self.shape.columns], 0)
        kept.store(total, [turn], across * self.shape.lanes)
        gpu.BarrierOp()
        branch = scf.IfOp(self.block.thread.below(self.shape.columns))
        with ir.InsertionPoint(branch.then_block):
            sums = [kept.load([constant(group)], self.block.thread, 1) for group in range(groups)]
            while len(sums) > 1:
                sums = [_sum(one, other) for one, other in zip(sums[::2], sums[1::2], strict=True)]
            self._give(sums[0], self.block.n0 + self.block.thread)
            scf.YieldOp([])

    def _products_of_columns(self, column: Word, ks: Sequence[Word]) -> list[Pair]:
        pairs = self._pairs((self.block.m0, column), ks, (1, self.shape.lanes))
        return [(vector.BroadcastOp(self.kind, one).result, other) for one, other in pairs]

    def _rows(self) -> None:
        lane = self.block.thread % WARP
        column = self.block.n0 + self.block.thread // WARP
        clamped = column.where(column.below(self.block.n), 0)
        lanes = self.shape.lanes

        def products(ks: Sequence[Word]) -> list[Pair]:
            return self._pairs((self.block.m0, clamped), ks, (lanes, lanes))

        total = self._summed(lane * lanes, WARP * lanes, products)
        parts = bodies.unpack(total)
        while len(parts) > 1:
            parts = [_sum(one, other) for one, other in zip(parts[::2], parts[1::2], strict=True)]
        value = parts[0]
        step = WARP // 2
        while step:
            value = _sum(value, devicemath.exchanged(value, step))
            step //= 2
        branch = scf.IfOp(lane.equals(0))
        with ir.InsertionPoint(branch.then_block):
            self._give(value, column)
            scf.YieldOp([])

    def _summed(self, start: Word, step: int, products: Products) -> ir.Value:
        """Whole turns with several reads under way, and the rest one by one."""
        first, zero = self.first + start, epilogue.zero(self.kind)
        turn = step * self.shape.under_way
        whole = (self.behind - self.first) // turn * turn + self.first
        loop = scf.ForOp(first.value, (whole + start).value, constant(turn).value, [zero])
        with ir.InsertionPoint(loop.body):
            k = Word(loop.induction_variable)
            total = loop.inner_iter_args[0]
            for left, right in products([k + number * step for number in range(self.shape.under_way)]):
                total = accumulated(total, left, right)
            scf.YieldOp([total])
        rest = scf.ForOp((whole + start).value, self.behind.value, constant(step).value, [loop.results[0]])
        with ir.InsertionPoint(rest.body):
            ((left, right),) = products([Word(rest.induction_variable)])
            scf.YieldOp([accumulated(rest.inner_iter_args[0], left, right)])
        return rest.results[0]

    def _give(self, total: ir.Value, column: Word) -> None:
        """To memory for parts of sums, if there are several; else to the result."""
        branch = scf.IfOp(column.below(self.block.n))
        with ir.InsertionPoint(branch.then_block):
            at = Place(self.batch, self.block.m0.index(), column.index())
            done, split = self.problem.epilogue, self.split
            if split is None:
                done.store(done.values(total, at), at)
            else:
                partial, part = split.epilogue, replace(at, batch=self.block.batch)
                tiles.either(
                    constant(1).below(narrow(split.parts.value)),
                    lambda: partial.store(partial.values(total, part), part),
                    lambda: done.store(done.values(total, at), at),
                )
            scf.YieldOp([])


def _sum(one: ir.Value, other: ir.Value) -> ir.Value:
    is_float = isinstance(one.type, ir.FloatType)
    return (arith.AddFOp if is_float else arith.AddIOp)(one, other).result
