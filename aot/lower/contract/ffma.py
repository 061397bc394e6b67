"""Products on the ordinary units: a tile of the result in the registers of a block's threads.

In: a problem of any numbers, and a Tile. Out: a ``gpu.launch``.

Both factors go through shared memory, ``k`` outermost there, two buffers deep: while one is multiplied, the next
is on its way from memory to registers. A thread holds ``reach x reach`` sums in groups of a vector; each step of ``k``
reads that many numbers of either factor and does the square of it in multiplications.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf, vector

from aot.lower import rtcalls
from aot.lower.contract import epilogue, tiles
from aot.lower.contract.problem import Factor, Problem
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.splitting import Split
from aot.lower.contract.tiles import Block, Target, Told, Worker
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies
from aot.lower.fast.accesses import load_vector

_SIDE = 16
"""Threads of a block along each side of the tile."""
_WARP, _ACROSS = 32, 8
"""Lanes, and those of them along a row."""
_VECTOR = 16
"""Bytes."""
_TWO_BLOCKS = 256
"""Bytes of a thread's sums with which two blocks fit on a multiprocessor."""
_PAD = 4
"""Elements by which a row in shared memory is longer, so that columns meet different banks."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work."""

    side: int
    """Rows and columns of the block's tile."""
    depth: int
    """Of ``k`` at a time."""
    wide: bool
    """Memory is read in vectors of 16 bytes."""
    width: int
    """Neighbouring results that are stored at a time."""

    @property
    def threads(self) -> int:
        return _SIDE * _SIDE

    @property
    def reach(self) -> int:
        """Rows and columns of a thread."""
        return self.side // _SIDE

    def told(self) -> Told:
        """For reports."""
        sizes = {"rows": self.side, "columns": self.side, "depth": self.depth, "threads": self.threads}
        return Told("ffma", sizes, () if self.wide else ("single elements",))


def launch(problem: Problem, tile: Tile, split: Split | None = None) -> None:
    """Emit the kernel at the insertion point; it does one part of the sum if that is split."""
    size = rtcalls.storage_bytes(problem.accumulator)
    shared = 4 * tile.depth * (tile.side + _PAD) * size
    inner = problem if split is None else replace(problem, batch=(split.parts, *problem.batch))
    with tiles.launch(inner, (tile.side, tile.side), tile.threads, shared, tile.told()) as block:
        if tile.wide and size * tile.reach**2 <= _TWO_BLOCKS:
            block.launch.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2)
        _Code(problem, tile, block, split).emit()


class _Code:
    """The code of one kernel."""

    def __init__(self, problem: Problem, tile: Tile, block: Block, split: Split | None) -> None:
        self.problem, self.tile, self.block, self.split = problem, tile, block, split
        self.first, self.behind, self.batch = constant(0), block.k, block.batch
        if split is not None:
            depth = narrow(split.depth.value)
            self.first, self.batch = narrow(block.batch[0]) * depth, block.batch[1:]
            self.behind = block.k.least(self.first + depth)
        self.element = problem.accumulator
        self.vector = min(tile.reach, max(1, _VECTOR // rtcalls.storage_bytes(self.element)))
        self.groups = tile.reach // self.vector
        shape = [2, tile.depth, tile.side + _PAD]
        half = 2 * tile.depth * (tile.side + _PAD) * rtcalls.storage_bytes(self.element)
        self.kept = [Shared(self.element, shape, start) for start in (0, half)]
        sides = ((problem.left, block.m0, block.m), (problem.right, block.n0, block.n))
        self.loaders = [_Loader(self, factor, first, extent) for factor, first, extent in sides]

    def emit(self) -> None:
        one = rtcalls.index(1)
        for loader, kept in zip(self.loaders, self.kept, strict=True):
            loader.put(loader.read(self.first), kept, constant(0))
        gpu.BarrierOp()
        start = epilogue.zero(ir.VectorType.get([self.vector], self.element))
        steps = (self.behind - self.first).tiles(self.tile.depth).index()
        loop = scf.ForOp(rtcalls.index(0), steps, one, [start] * (self.tile.reach * self.groups))
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args)
            turn = narrow(loop.induction_variable)
            # One factor after the other: half as many registers hold what is on its way.
            half = self.tile.depth // 2
            for side, (loader, kept) in enumerate(zip(self.loaders, self.kept, strict=True)):
                values = loader.read(self.first + (turn + 1) * self.tile.depth)
                sums = self._multiplied(sums, turn & 1, range(side * half, (side + 1) * half))
                loader.put(values, kept, (turn + 1) & 1)
            gpu.BarrierOp()
            scf.YieldOp(sums)
        self._finish(list(loop.results))

    def _place(self, side: int) -> Word:
        """First row (0) or column (1) of the thread in the tile: a warp reads few different vectors of either side."""
        lane, warp = self.block.thread % _WARP, self.block.thread // _WARP
        across = _SIDE // _ACROSS
        if side:
            return (warp % across * _ACROSS + lane % _ACROSS) * self.vector
        return (warp // across * (_WARP // _ACROSS) + lane // _ACROSS) * self.vector

    def _multiplied(self, sums: list[ir.Value], buffer: Word, steps: Iterable[int]) -> list[ir.Value]:
        for step in steps:
            left, right = (self._factors(side, buffer, step) for side in (0, 1))
            rows = [each for part in left for each in bodies.unpack(part)]
            for number, row in enumerate(rows):
                spread = vector.BroadcastOp(right[0].type, row).result
                for group, columns in enumerate(right):
                    place = number * self.groups + group
                    sums[place] = epilogue.accumulated(sums[place], spread, columns)
        return sums

    def _factors(self, side: int, buffer: Word, step: int) -> list[ir.Value]:
        found = []
        for group in range(self.groups):
            place = self._place(side) + group * _SIDE * self.vector
            found.append(self.kept[side].load([buffer, constant(step)], place, self.vector))
        return found

    def _finish(self, sums: Sequence[ir.Value]) -> None:
        """By groups of rows: their sums lie in the buffers, one row of the tile after the other."""
        rows = _SIDE * self.vector
        slab = Shared(self.element, [rows, self.tile.side + _PAD], 0)
        for group in range(self.groups):
            if group:
                gpu.BarrierOp()
            for number in range(self.vector):
                row = self._place(0) + number
                for part in range(self.groups):
                    place = (group * self.vector + number) * self.groups + part
                    column = self._place(1) + part * _SIDE * self.vector
                    slab.store(sums[place], [row], column)
            gpu.BarrierOp()
            corner = (self.block.m0 + group * rows, self.block.n0)
            self._give(slab, corner, rows)

    def _give(self, slab: Shared, corner: tiles.Corner, rows: int) -> None:
        worker = Worker(self.block.thread, self.tile.threads)
        done = Target(self.problem.epilogue, self.batch, self.tile.width)

        def give(target: Target) -> None:
            tiles.give(self.block, slab, corner, (rows, self.tile.side), worker, target)

        if self.split is None:
            give(done)
            return
        part = Target(self.split.epilogue, self.block.batch, self.split.width)
        several = constant(1).below(narrow(self.split.parts.value))
        tiles.either(several, lambda: give(part), lambda: give(done))


class _Loader:
    """Takes tiles of one factor from memory to shared memory."""

    def __init__(self, code: _Code, factor: Factor, first: Word, extent: Word) -> None:
        self.code, self.factor, self.first, self.extent = code, factor, first, extent
        tile = code.tile
        most = tile.side * tile.depth // tile.threads
        self.width = min(most, _VECTOR // rtcalls.storage_bytes(factor.element)) if tile.wide else 1
        self.along_k = not factor.turned
        self.across = (tile.depth if self.along_k else tile.side) // self.width
        self.turns = tile.side * tile.depth // self.width // tile.threads

    def _place(self, turn: int) -> tuple[Word, Word]:
        """Row or column of the tile, and ``k`` in it, that the thread reads in a turn."""
        number = self.code.block.thread + turn * self.code.tile.threads
        inner, outer = number % self.across * self.width, number // self.across
        return (outer, inner) if self.along_k else (inner, outer)

    def read(self, k0: Word) -> list[ir.Value]:
        """Elements of the tile that begins at ``k0``; zeros outside."""
        values = []
        for turn in range(self.turns):
            outer, k = self._place(turn)
            outer, k = self.first + outer, k0 + k
            inside = arith.AndIOp(outer.below(self.extent), k.below(self.code.behind)).result
            values.append(self._guarded(inside, self.factor.indices(self.code.batch, outer.index(), k.index())))
        return values

    def _guarded(self, inside: ir.Value, at: list[ir.Value]) -> ir.Value:
        factor = self.factor
        kind = factor.element if self.width == 1 else ir.VectorType.get([self.width], factor.element)
        branch = scf.IfOp(inside, [kind], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp([self._loaded(at)])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([epilogue.zero(kind)])
        return branch.results[0]

    def _loaded(self, at: list[ir.Value]) -> ir.Value:
        factor = self.factor
        if self.width == 1:
            return memref.LoadOp(factor.memory, at).result
        return load_vector(factor.memory, at, self.width, factor.element)

    def put(self, values: Sequence[ir.Value], kept: Shared, buffer: Word) -> None:
        """Store what ``read`` gave, as factors."""
        for turn, value in enumerate(values):
            outer, k = self._place(turn)
            factor = self.factor.converted(value)
            if self.along_k or self.width == 1:
                for number, each in enumerate(bodies.unpack(factor)):
                    kept.store(each, [buffer, k + number], outer)
            else:
                kept.store(factor, [buffer, k], outer)
