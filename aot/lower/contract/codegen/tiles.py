"""The launch of a kernel whose blocks each compute one tile of the result, and what every such kernel does alike.

In: a problem, the tile's extents, a block's threads and shared memory. Out: a ``gpu.launch``, and for its body the
block's tile; a loop that gives sums from shared memory to the epilogue.

Blocks are numbered so that those that run together share rows and columns of the factors: down eight tiles, then on
to the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.epilogue import Epilogue, Place
from aot.lower.contract.products.problem import Problem
from aot.lower.gpumodule import loopmarks
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.tiling import CONTRACTIONS

_GROUP = 8
"""Tiles below each other before the next column of tiles."""
_AT_A_TIME = 4
"""Vectors of a thread that are on their way to memory together."""


@dataclass(frozen=True)
class Told:
    """What reports say of a kernel."""

    name: str
    sizes: Mapping[str, int]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Block:
    """What a block's code knows; numbers are 32-bit words."""

    launch: ir.Operation
    problem: Problem
    thread: Word
    batch: tuple[ir.Value, ...]
    """Index of each loop around the product."""
    m0: Word
    """First row of the tile."""
    n0: Word
    m: Word
    """Extents of the whole product."""
    n: Word
    k: Word
    number: Word
    """Of the block, among those that have the tile."""


@contextmanager
def launch(
    problem: Problem, tile: tuple[int, int], threads: int, shared: int, told: Told, *, flat: bool = False, each: int = 1
) -> Iterator[Block]:
    """Emit a launch at the insertion point; the code that follows goes into its body.

    ``flat``: no two tiles lie below each other. ``each``: neighbouring blocks that have the same tile.
    """
    rows, columns, one = Word(problem.m.value).tiles(tile[0]), Word(problem.n.value).tiles(tile[1]), rtcalls.index(1)
    m, n, k, down, across = (narrow(each.value) for each in (problem.m, problem.n, problem.k, rows, columns))
    sizes = [narrow(extent.value) for extent in problem.batch]
    blocks = (rows * columns * Word(problem.batches()) * each).value
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), shared).result
    op = gpu.LaunchOp((blocks, one, one), (rtcalls.index(threads), one, one), dynamic_shared_memory_size=memory)
    tiling.mark(op.operation, CONTRACTIONS, 0, told.name, told.sizes, told.remarks)
    body = op.operation.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        place, thread = narrow(body.arguments[0]), narrow(body.arguments[3])
        number, among = place // each, place % each
        batch, rest = _batch(number, across if flat else down * across, sizes)
        row, column = (constant(0), rest) if flat else _tile(rest, down, across)
        yield Block(op.operation, problem, thread, batch, row * tile[0], column * tile[1], m, n, k, among)


def _batch(number: Word, tiles: Word, sizes: list[Word]) -> tuple[tuple[ir.Value, ...], Word]:
    """Indices of the loops around the product, and the number of the tile in it."""
    return (indices(number // tiles, sizes), number % tiles) if sizes else ((), number)


def indices(number: Word, sizes: Sequence[Word]) -> tuple[ir.Value, ...]:
    """Indices of loops, outermost first, from their common number."""
    found: list[ir.Value] = []
    for size in reversed(sizes[1:]):
        found.insert(0, (number % size).index())
        number = number // size
    return (number.index(), *found) if sizes else ()


def _tile(number: Word, down: Word, across: Word) -> tuple[Word, Word]:
    """Row and column of a tile."""
    group = across * _GROUP
    first = number // group * _GROUP
    rest = number % group
    height = (down - first).least(_GROUP)
    return first + rest % height, rest // height


@dataclass(frozen=True, eq=False)
class Target:
    """Where sums go."""

    epilogue: Epilogue
    batch: tuple[ir.Value, ...]
    width: int
    """Neighbouring elements that are stored at a time."""


@dataclass(frozen=True, eq=False)
class Worker:
    """A thread among those that share some work."""

    number: Word
    count: int


Corner = tuple[Word, Word]
"""Row and column."""


def give(block: Block, slab: Shared, corner: Corner, extents: tuple[int, int], worker: Worker, target: Target) -> None:
    """Sums of a part of the tile, which lie in shared memory row by row, go through the epilogue to their places."""
    rows, columns = extents
    width = target.width
    across = columns // width
    turns = -(-rows * across // worker.count)
    loop = scf.ForOp(constant(0).value, constant(turns).value, constant(1).value)
    # All of it unrolled would be long, and has ptxas move the sums about in the loop before it.
    unrolled(loop.operation, _AT_A_TIME)
    with ir.InsertionPoint(loop.body):
        number = Word(loop.induction_variable) * worker.count + worker.number
        row, column = number // across, number % across * width
        at = Place(target.batch, (corner[0] + row).index(), (corner[1] + column).index(), width)
        inside = arith.AndIOp((corner[0] + row).below(block.m), (corner[1] + column).below(block.n)).result
        if rows * across % worker.count:
            inside = arith.AndIOp(inside, number.below(rows * across)).result
        with branches.guard(inside):
            values = target.epilogue.values(slab.load([row], column, width), at)
            target.epilogue.store(values, at)
        scf.YieldOp([])


def unrolled(loop: ir.Operation, times: int) -> None:
    """Say how often LLVM and ptxas are to unroll a loop; 1: not at all."""
    how = f"count = {times} : i32" if times > 1 else "disable = true"
    loop.attributes[loopmarks.ATTRIBUTE] = ir.Attribute.parse(f"#llvm.loop_annotation<unroll = <{how}>>")
