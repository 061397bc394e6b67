"""Parts of an attention over many keys: what blocks leave of their keys, and the kernel that puts it together.

In: for each part and row the sums of values, the largest score and the sum of weights, relative to it. Out: a launch
with a block for each row, whose warps read some parts each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.arch import WARP
from aot.lower import rtcalls, tiling
from aot.lower.contract import epilogue, extents, onlinesoftmax, splitting, tiles
from aot.lower.contract.epilogue import Array, Place, constant_index
from aot.lower.contract.flashjob import Attention
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.tiles import Block, Told
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies
from aot.lower.fast.accesses import load_vector
from aot.lower.fast.places import Extent

_WARPS, _EACH = 8, 4
_MOST = _WARPS * _EACH
"""Parts."""
_LEAST_TURNS = 2
"""Of a part."""
_LANES = 4
PAIR = 4
"""Numbers for a row's largest score and its sum of weights, in shared memory: a whole vector."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts; numbers are indices of host code."""

    count: Extent
    keys: Word
    """Of a part."""
    sums: Array
    """Indexed by the part, then as the result is."""
    pairs: Array
    """The same with two columns: largest score, sum of weights."""
    buffers: tuple[ir.Value, ir.Value]
    width: int
    """Results that a block without others stores at a time if ``wide``."""
    wide: ir.Value | bool

    def several(self) -> ir.Value:
        """Whether there is more than one, in host code."""
        return Word(rtcalls.index(1)).below(Word(self.count.value))

    def combine(self, job: Attention) -> None:
        """Launch the kernel, if there are several parts, and free their memory."""
        tiles.either(self.several(), lambda: _launch(job, self), lambda: None)
        for buffer in self.buffers:
            memref.DeallocOp(buffer)


def plan(job: Attention, turn: int, blocks: int) -> Parts:
    """So many parts that blocks, ``blocks`` for each multiprocessor, all run at once, none of them empty.

    ``turn``: keys that a block reads at a time.
    """
    turns = Word(job.scores.n.value).tiles(turn)
    wanted = Word(rtcalls.multiprocessors()) * blocks // Word(job.scores.batches())
    some = turns.tiles(_LEAST_TURNS).least(_MOST).least(Word(arith.MaxUIOp(wanted.value, rtcalls.index(1)).result))
    each = Word(arith.CeilDivUIOp(turns.value, some.value).result)
    count = Word(arith.CeilDivUIOp(turns.value, each.value).result)
    sums, one = splitting.memory(job.output, count)
    pairs, other = splitting.memory(replace(job.output, n=constant_index(2)), count)
    width = epilogue.width(job.output.epilogue)
    wide = extents.whole_vectors(job.output, width)
    return Parts(Extent(count.value, None), each * turn, sums, pairs, (one, other), width, wide)


@contextmanager
def launch(job: Attention, parts: Parts, threads: int, shared: int, told: Told) -> Iterator[tuple[Block, Word]]:
    """Emit a launch of a block for each part at the insertion point; the code that follows goes into its body."""
    blocks, one = Word(job.scores.batches()) * Word(parts.count.value), rtcalls.index(1)
    size = arith.ConstantOp(ir.IntegerType.get_signless(32), shared).result
    sizes = ((blocks.value, one, one), (rtcalls.index(threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=size).operation
    tiling.mark(op, "attention", 0, told.name, {**told.sizes, "threads": threads})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, count = narrow(body.arguments[0]), narrow(parts.count.value)
        batch = tiles.indices(number // count, [narrow(each.value) for each in job.scores.batch])
        m, n, zero = narrow(job.scores.m.value), constant(job.width), constant(0)
        yield Block(op, job.output, narrow(body.arguments[3]), batch, zero, zero, m, n, n), number % count


@dataclass(frozen=True, eq=False)
class Share:
    """A block's keys."""

    begin: Word
    whole: Word
    """Turns in which all keys are there."""
    turns: Word


def share(parts: Parts, part: Word, keys: Word, turn: int) -> Share:
    """The keys of a part, in a kernel."""
    size = narrow(parts.keys.value)
    begin = part * size
    count = (begin + size).least(keys) - begin
    return Share(begin, count // turn, count.tiles(turn))


def _launch(job: Attention, parts: Parts) -> None:
    one, rows = rtcalls.index(1), Word(job.output.m.value)
    blocks = rows * Word(job.output.batches())
    across = -(-job.width // (WARP * _LANES)) * WARP * _LANES
    size = arith.ConstantOp(ir.IntegerType.get_signless(32), _WARPS * (across + PAIR) * 4).result
    threads = rtcalls.index(_WARPS * WARP)
    op = gpu.LaunchOp((blocks.value, one, one), (threads, one, one), dynamic_shared_memory_size=size).operation
    tiling.mark(op, "attention", 0, "decode-combine", {"threads": _WARPS * WARP, "width": job.width})
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, extent = narrow(body.arguments[0]), narrow(rows.value)
        batch = tiles.indices(number // extent, [narrow(each.value) for each in job.output.batch])
        _Code(job, parts, narrow(body.arguments[3]), (*batch, (number % extent).index()), across).emit()


class _Code:
    """The code of a block: one row."""

    def __init__(self, job: Attention, parts: Parts, thread: Word, row: Sequence[ir.Value], across: int) -> None:
        self.job, self.parts, self.thread, self.row, self.across = job, parts, thread, row, across
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
        branch = scf.IfOp(self.thread.below(self.job.width))
        with ir.InsertionPoint(branch.then_block):
            self._finish()
            scf.YieldOp([])

    def _columns(self, lane: Word) -> list[Word]:
        """First columns of a lane's vectors."""
        return [lane * _LANES + first for first in range(0, self.across, WARP * _LANES)]

    def _part(self, number: Word, lane: Word) -> tuple[Row, list[ir.Value]]:
        """A part's softmax and sums; of one that is none, nothing."""
        count = narrow(self.parts.count.value)
        at = [number.least(count - 1).index(), *self.row]
        largest, total = (memref.LoadOp(self.parts.pairs.memory, [*at, rtcalls.index(n)]).result for n in range(2))
        there = number.below(count)
        row = Row(
            arith.SelectOp(there, largest, onlinesoftmax.number(float("-inf"))).result,
            arith.SelectOp(there, total, onlinesoftmax.number(0.0)).result,
        )
        places = [each.least(self.job.width - _LANES) for each in self._columns(lane)]
        kind = ir.F32Type.get()
        return row, [load_vector(self.parts.sums.memory, [*at, each.index()], _LANES, kind) for each in places]

    def _together(self, rows: Sequence[Row], sums: Sequence[Sequence[ir.Value]]) -> tuple[Row, list[ir.Value]]:
        merged = onlinesoftmax.merged(rows, self.job.scale)
        factors = [onlinesoftmax.factor(each, merged, self.job.scale) for each in rows]
        done = []
        for parts in zip(*sums, strict=True):
            scaled = [
                arith.MulFOp(part, _like(factor, part)).result for part, factor in zip(parts, factors, strict=True)
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


def _like(factor: ir.Value, part: ir.Value) -> ir.Value:
    return bodies.broadcast(factor, _LANES) if isinstance(part.type, ir.VectorType) else factor
