"""Products of one row: each element of the right factor is read once, and nothing is worth keeping.

In: a problem whose right factor is read in vectors of 16 bytes, and the parts of its sum. Out: a ``gpu.launch``.

Where columns are contiguous, the threads of a block lie across columns, and groups of them take turns at ``k``; where
``k`` is, a warp has a column and adds up across its lanes. Several reads of a thread are under way at a time.

From 9.0 on, blocks of a cluster may have a part of ``k`` each; else sums of parts go through memory (``splitting``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf, vector

from aot.lower.contract.codegen import hopper, instructions, sharednumbers, tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block, Told
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products import epilogue, extents
from aot.lower.contract.products.epilogue import Place, accumulated
from aot.lower.contract.products.problem import Factor, Problem, all_of
from aot.lower.contract.products.splitting import Split, Wish
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.fast.regions.places import VECTOR_BYTES
from aot.lower.gpumodule import devicemath, imageneeds
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.lower.numbers import codes
from aot.targets.arch import WARP

Pair = tuple[ir.Value, ir.Value]
"""A left and a right factor."""
Products = Callable[[Sequence[Word]], list[Pair]]
"""Factors at places along ``k``."""

_THREADS = 256
_ACROSS, _ACROSS_IN_CLUSTER = 16, 8
"""Threads across columns."""
_CLUSTERS = "sm_90"
_BESIDE = 3
"""Blocks on a multiprocessor at a time."""
_LINE = 8
"""Blocks of a cluster for elements of one byte, of which vectors have the most columns."""
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
    cluster: int = 1
    """Blocks that share columns."""

    @staticmethod
    def of(problem: Problem, *, converts: bool = False) -> Shape:
        """The shape for a problem."""
        lanes = VECTOR_BYTES // rtcalls.storage_bytes(problem.right.element)
        # Conversions of small floats take registers, spelled out most of all, and of vectors of both factors.
        small, turned = any(codes.small_float(factor.element) for factor in problem.factors), problem.right.turned
        under_way = _UNDER_WAY // (2 if converts else 4 if turned else 8) if small else _UNDER_WAY
        return Shape(turned, lanes, under_way, converts)

    def in_clusters(self) -> Shape:
        """The same for blocks of clusters."""
        return replace(self, cluster=max(2, _LINE * self.lanes // VECTOR_BYTES))

    @property
    def across(self) -> int:
        """Threads across columns, where these are contiguous."""
        return _ACROSS if self.cluster == 1 else _ACROSS_IN_CLUSTER

    @property
    def groups(self) -> int:
        """Of such threads, which take turns."""
        return _THREADS // self.across

    @property
    def columns(self) -> int:
        return self.across * self.lanes if self.turned else _THREADS // WARP

    @property
    def depth(self) -> int:
        """Elements along ``k`` of which a part has a multiple."""
        return self.groups * self.under_way if self.turned else WARP * self.lanes

    def wish(self, problem: Problem) -> Wish:
        """That this kernel computes it: one row, and vectors that are aligned and whole."""
        sides = ((problem.right, problem.n), *(() if self.turned else ((problem.left, problem.m),)))
        wide = [extents.is_wide(problem, factor, outer) for factor, outer in sides]
        along_k = self.turned or problem.left.along_k
        condition = all_of([extents.at_most(problem.m, 1), along_k, *wide])
        return Wish(condition, 1, self.columns, self.depth, in_parts=True)


@dataclass(frozen=True, eq=False)
class Way:
    """When a kernel may run, and what emits it, for the parts of the sum."""

    wish: Wish
    launch: Callable[[Split | None], None]


def ways(problem: Problem, clusters: bool | None, *, converts: bool = False, need: str = "") -> list[Way]:
    """The best one first, the widest condition last; ``clusters``: whether all GPUs have them (None: some)."""
    shape = Shape.of(problem, converts=converts)
    wish = shape.wish(problem)
    plain = Way(wish, partial(launch, problem, shape, need=need))
    shape = shape.in_clusters()
    few = _fit(problem, shape) if shape.turned and clusters is not False else False
    if few is False:
        return [plain]
    served = [] if clusters else [rtcalls.serves(_CLUSTERS)]
    condition, own = all_of([*served, few, wish.condition]), need if clusters else _CLUSTERS
    best = Way(Wish(condition, 1, 1, 1, in_parts=False), lambda split: launch(problem, shape, None, own))
    return [best] if clusters and few is True else [best, plain]


def _fit(problem: Problem, shape: Shape) -> ir.Value | bool:
    """Whether all clusters run at once: a second round of a few leaves most of the GPU idle."""
    count = extents.rounds(problem, 1, shape.columns // shape.cluster, 1)
    return extents.no_more(count, _BESIDE if isinstance(count, int) else Word(rtcalls.index(_BESIDE)))


def launch(problem: Problem, shape: Shape, split: Split | None, need: str = "") -> None:
    """Emit the kernel at the insertion point; ``need``: the architecture of images that hold it."""
    sums = rtcalls.storage_bytes(problem.accumulator)
    shared = (shape.groups + (shape.cluster > 1)) * shape.columns * sums if problem.right.turned else 0
    inner = problem if split is None else replace(problem, batch=(split.parts, *problem.batch))
    sizes = {"columns": shape.columns, "threads": _THREADS, "width": shape.lanes}
    told = Told("matvec", {**sizes, "cluster": shape.cluster} if shape.cluster > 1 else sizes)
    tile = (1, shape.columns)
    with tiles.launch(inner, tile, _THREADS, shared, told, flat=True, each=shape.cluster) as block:
        tiling.give_registers(block.launch, 2)
        if need:
            imageneeds.mark(block.launch, need)
        if shape.cluster > 1:
            block.launch.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([shape.cluster, 1, 1])
        _Code(problem, shape, block, split).emit()


class _Code:
    """The code of one kernel."""

    def __init__(self, problem: Problem, shape: Shape, block: Block, split: Split | None) -> None:
        self.problem, self.shape, self.block, self.split = problem, shape, block, split
        self.first, self.behind, self.batch = constant(0), block.k, block.batch
        if shape.cluster > 1:
            depth = block.k.tiles(shape.cluster * shape.groups) * shape.groups
            self.first = (block.number * depth).least(block.k)
            self.behind = (self.first + depth).least(block.k)
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
        shape, thread, element = self.shape, self.block.thread, self.problem.accumulator
        across, turn = thread % shape.across, thread // shape.across
        column = self.block.n0 + across * shape.lanes
        clamped = column.where(column.below(self.block.n), 0)
        kept = Shared(element, [shape.groups, shape.columns], 0)
        if shape.cluster > 1:
            hopper.say_begun()
        total = self._summed(turn, shape.groups, lambda ks: self._products_of_columns(clamped, ks))
        kept.store(total, [turn], across * shape.lanes)
        gpu.BarrierOp()

        def sums() -> ir.Value:
            return _added([kept.load([constant(group)], thread, 1) for group in range(shape.groups)])

        if shape.cluster > 1:
            self._exchange(sums)
        else:
            hopper.when(thread.below(shape.columns), lambda: self._give(sums(), self.block.n0 + thread))

    def _exchange(self, sums: Callable[[], ir.Value]) -> None:
        """Each block adds up the sums of all for some of the columns, which the others put into its memory."""
        shape, thread, element = self.shape, self.block.thread, self.problem.accumulator
        share, size = shape.columns // shape.cluster, rtcalls.storage_bytes(element)
        parts = Shared(element, [shape.cluster, share], shape.groups * shape.columns * size)
        base = instructions.shared_base() + shape.groups * shape.columns * size
        hopper.await_begun()

        def put() -> None:
            place = base + (self.block.number * share + thread % share) * size
            sharednumbers.give_number(place, thread // share, sums())

        hopper.when(thread.below(shape.columns), put)
        hopper.cluster_sync()

        def give() -> None:
            total = _added([parts.load([constant(part)], thread, 1) for part in range(shape.cluster)])
            self._give(total, self.block.n0 + self.block.number * share + thread)

        hopper.when(thread.below(share), give)

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
        value = _added(bodies.unpack(total))
        step = WARP // 2
        while step:
            value = _sum(value, devicemath.exchanged(value, step))
            step //= 2
        with branches.guard(lane.equals(0)):
            self._give(value, column)

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
        with branches.guard(column.below(self.block.n)):
            at = Place(self.batch, self.block.m0.index(), column.index())
            done, split = self.problem.epilogue, self.split
            if split is None:
                done.store(done.values(total, at), at)
            else:
                partial, part = split.epilogue, replace(at, batch=self.block.batch)
                branches.either(
                    constant(1).below(narrow(split.parts.value)),
                    lambda: partial.store(partial.values(total, part), part),
                    lambda: done.store(done.values(total, at), at),
                )


def _added(sums: Sequence[ir.Value]) -> ir.Value:
    """The sum of a power of two of them, pair by pair."""
    while len(sums) > 1:
        sums = [_sum(one, other) for one, other in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _sum(one: ir.Value, other: ir.Value) -> ir.Value:
    is_float = isinstance(one.type, ir.FloatType)
    return (arith.AddFOp if is_float else arith.AddIOp)(one, other).result
