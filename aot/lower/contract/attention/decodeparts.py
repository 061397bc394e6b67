"""Parts of an attention over many keys: what blocks leave of their keys, and the kernel that puts it together.

In: for each part and row the sums of values, the largest score and the sum of weights, relative to it. Out: a launch
with a block for each row, whose warps read some parts each. None where the blocks of all parts are a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.contract.attention import onlinesoftmax
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.onlinesoftmax import Row
from aot.lower.contract.codegen import tiles
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block, Told
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products import epilogue, extents, splitting
from aot.lower.contract.products.epilogue import Array, Place, constant_index
from aot.lower.fast.regions.accesses import load_vector
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.targets.arch import WARP
from aot.tiling import ATTENTION

_WARPS, _EACH = 8, 4
_MOST = _WARPS * _EACH
"""Parts."""
MOST_TOGETHER = 8
"""Parts whose blocks may be a cluster: so many blocks every device with clusters takes."""
_BLOCKS = 2
"""Of a multiprocessor."""
_ENOUGH = 40
"""A fifth of the places, with the blocks of a cluster, is enough to read at the speed of memory."""
_LEAST_TURNS = 2
"""Of a part."""
_LANES = 4
PAIR = 4
"""Numbers for a row's largest score and its sum of weights: a whole vector."""


@dataclass(frozen=True, eq=False)
class Division:
    """How keys are divided; numbers are indices of host code."""

    count: Word
    """Of parts."""
    keys: Word
    """Of a part."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What blocks leave of their parts."""

    array: Array
    """Indexed by the part, then as the result is; behind a row's sums its largest score and sum of weights."""
    buffer: ir.Value


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a launch."""

    division: Division
    memory: Memory | None
    """None where the parts' blocks are a cluster, which puts them together itself."""
    width: int
    """Results that a block stores at a time if ``wide``."""
    wide: ir.Value | bool

    @property
    def count(self) -> Word:
        return self.division.count

    def several(self) -> ir.Value:
        """Whether there is more than one, in host code."""
        return Word(rtcalls.index(1)).below(self.count)

    def combine(self, job: Attention) -> None:
        """Launch the kernel that reads what blocks left, if there are several parts, and free the memory."""
        if self.memory is None:
            return
        memory = self.memory
        branches.either(self.several(), lambda: _launch(job, self, memory), lambda: None)
        memref.DeallocOp(memory.buffer)


def divide(job: Attention, turn: int) -> Division:
    """So many parts that all blocks run at once, none of them empty; ``turn``: keys that a block reads at a time."""
    return _division(job, turn, _wanted(job).least(_MOST))


def divide_together(job: Attention, turn: int) -> Division:
    """The same, of no more than a cluster's blocks; one less where multiprocessors do not come in such numbers."""
    some = _wanted(job).least(MOST_TOGETHER)
    whole = arith.OrIOp(some.below(3), some.equals(4)).result
    fits = arith.OrIOp(whole, (_blocks(job, some) * 10).below(_places() * 9 + 1)).result
    return _division(job, turn, some.where(fits, some - 1))


def shares_clusters(job: Attention, division: Division) -> ir.Value:
    """Whether clusters suffice, in host code: for the parts that are wanted, or to read at the speed of memory."""
    few = division.count.below(MOST_TOGETHER + 1)
    many = _places().below(_blocks(job, Word(rtcalls.index(_ENOUGH))) + 1)
    return arith.OrIOp(few, many).result


def _places() -> Word:
    """Blocks that run at once."""
    return Word(rtcalls.multiprocessors()) * _BLOCKS


def _blocks(job: Attention, parts: Word) -> Word:
    return Word(job.scores.batches()) * parts


def _wanted(job: Attention) -> Word:
    """Parts that there are places for."""
    return Word(arith.MaxUIOp((_places() // Word(job.scores.batches())).value, rtcalls.index(1)).result)


def _division(job: Attention, turn: int, most: Word) -> Division:
    begin, end = job.keys
    turns = (end - begin).tiles(turn)
    some = turns.tiles(_LEAST_TURNS).least(most)
    each = turns.tiles_of(some)
    return Division(turns.tiles_of(each), each * turn)


def together(job: Attention, division: Division) -> Parts:
    """Parts whose blocks are a cluster."""
    width = epilogue.width(job.output.epilogue)
    return Parts(division, None, width, extents.whole_vectors(job.output, width))


def apart(job: Attention, division: Division) -> Parts:
    """Parts that are left in memory, if there are several."""
    array, buffer = splitting.memory(replace(job.output, n=constant_index(job.width + PAIR)), division.count)
    return replace(together(job, division), memory=Memory(array, buffer))


@contextmanager
def launch(job: Attention, parts: Parts, threads: int, shared: int, told: Told) -> Iterator[tuple[Block, Word]]:
    """Emit a launch of a block for each part at the insertion point; the code that follows goes into its body."""
    blocks, one = Word(job.scores.batches()) * parts.count, rtcalls.index(1)
    size = arith.ConstantOp(ir.IntegerType.get_signless(32), shared).result
    sizes = [blocks.value, one, one, rtcalls.index(threads), one, one]
    cluster = [] if parts.memory else [parts.count.value, one, one]
    op = _launched(sizes, cluster, size)
    tiling.mark(op, ATTENTION, 0, told.name, told.sizes, told.remarks)
    if job.bounded:
        tiling.give_registers(op, _BLOCKS)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, count = narrow(body.arguments[0]), narrow(parts.count.value)
        batch = tiles.indices(number // count, [narrow(each.value) for each in job.scores.batch])
        m, n, zero = narrow(job.scores.m.value), constant(job.columns), constant(0)
        yield Block(op, job.output, narrow(body.arguments[3]), batch, zero, zero, m, n, n, zero), number % count


def _launched(sizes: Sequence[ir.Value], cluster: Sequence[ir.Value], shared: ir.Value) -> ir.Operation:
    """A ``gpu.launch`` with an empty block; the bindings' own has no clusters."""
    segments = ir.DenseI32ArrayAttr.get([0, *([1] * 6), *([int(bool(cluster))] * 3), 1])
    operands = [*sizes, *cluster, shared]
    op = ir.Operation.create("gpu.launch", [], operands, {"operandSegmentSizes": segments}, regions=1)
    names = len(sizes) + len(cluster)
    op.regions[0].blocks.append(*([ir.IndexType.get()] * (2 * names)), arg_locs=[ir.Location.current] * (2 * names))
    return op


@dataclass(frozen=True, eq=False)
class Share:
    """A block's keys."""

    begin: Word
    whole: Word
    """Turns in which all keys are there."""
    turns: Word


def share(job: Attention, parts: Parts, part: Word, turn: int) -> Share:
    """The keys of a part, in a kernel."""
    size, (first, end) = narrow(parts.division.keys.value), job.keys
    keys, begin = narrow(end.value), part * size
    if isinstance(first, Word):
        begin = begin + narrow(first.value)
    count = (begin + size).least(keys) - begin
    return Share(begin, count // turn, count.tiles(turn))


def _launch(job: Attention, parts: Parts, memory: Memory) -> None:
    one, rows = rtcalls.index(1), Word(job.output.m.value)
    blocks = rows * Word(job.output.batches())
    across = -(-job.width // (WARP * _LANES)) * WARP * _LANES
    size = arith.ConstantOp(ir.IntegerType.get_signless(32), _WARPS * (across + PAIR) * 4).result
    threads = rtcalls.index(_WARPS * WARP)
    op = gpu.LaunchOp((blocks.value, one, one), (threads, one, one), dynamic_shared_memory_size=size).operation
    tiling.mark(op, ATTENTION, 0, "decode-combine", {"threads": _WARPS * WARP, "width": job.width})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, extent = narrow(body.arguments[0]), narrow(rows.value)
        batch = tiles.indices(number // extent, [narrow(each.value) for each in job.output.batch])
        _Code(job, (parts, memory), narrow(body.arguments[3]), (*batch, (number % extent).index()), across).emit()


class _Code:
    """The code of a block: one row."""

    def __init__(
        self, job: Attention, parts: tuple[Parts, Memory], thread: Word, row: Sequence[ir.Value], across: int
    ) -> None:
        self.job, (self.parts, self.memory), self.thread, self.row, self.across = job, parts, thread, row, across
        element = ir.F32Type.get()
        self.sums = Shared(element, [_WARPS, across], 0)
        self.pairs = Shared(element, [_WARPS, PAIR], _WARPS * across * 4)

    def emit(self) -> None:
        """A warp's parts together, then those of all warps."""
        warp, lane = self.thread // WARP, self.thread % WARP
        found = [self._part(warp + _WARPS * number, lane) for number in range(_EACH)]
        row, sums = self._together([row for row, _ in found], [values for _, values in found])
        for place, value in zip(self._columns(lane), sums, strict=True):
            self.sums.store(value, [warp], place)
        self.pairs.store(row.largest, [warp], constant(0))
        self.pairs.store(row.total, [warp], constant(1))
        gpu.BarrierOp()
        with branches.guard(self.thread.below(self.job.columns)):
            self._finish()

    def _columns(self, lane: Word) -> list[Word]:
        """First columns of a lane's vectors."""
        return [lane * _LANES + first for first in range(0, self.across, WARP * _LANES)]

    def _part(self, number: Word, lane: Word) -> tuple[Row, list[ir.Value]]:
        """A part's softmax and sums; of one that is none, nothing."""
        count = narrow(self.parts.count.value)
        at = [number.least(count - 1).index(), *self.row]
        memory, width = self.memory.array.memory, self.job.width
        largest, total = (memref.LoadOp(memory, [*at, rtcalls.index(width + n)]).result for n in range(2))
        there = number.below(count)
        row = Row(*onlinesoftmax.there(there, [largest], float("-inf")), *onlinesoftmax.there(there, [total]))
        places = [each.least(self.job.width - _LANES) for each in self._columns(lane)]
        kind = ir.F32Type.get()
        sums = [load_vector(memory, [*at, each.index()], _LANES, kind) for each in places]
        return row, onlinesoftmax.there(there, sums)

    def _together(self, rows: Sequence[Row], sums: Sequence[Sequence[ir.Value]]) -> tuple[Row, list[ir.Value]]:
        merged = onlinesoftmax.merged(rows, self.job.scale)
        factors = [onlinesoftmax.factor(each, merged, self.job.scale) for each in rows]
        done = []
        for parts in zip(*sums, strict=True):
            scaled = [
                arith.MulFOp(part, onlinesoftmax.like(factor, part)).result
                for part, factor in zip(parts, factors, strict=True)
            ]
            done.append(onlinesoftmax.total(scaled))
        return merged, done

    def _finish(self) -> None:
        """One element of the result."""
        warps = [constant(number) for number in range(_WARPS)]
        rows = [Row(*(self.pairs.load([each], constant(n), 1) for n in range(2))) for each in warps]
        merged, (value,) = self._together(rows, [[self.sums.load([each], self.thread, 1)] for each in warps])
        value = arith.MulFOp(value, onlinesoftmax.reciprocal(merged.total, zeros=self.job.zeros)).result
        *batch, row = self.row
        at = Place(tuple(batch), row, self.thread.index())
        done = self.job.output.epilogue
        done.store(done.values(value, at), at)
