"""Parts of an attention over many keys: what blocks leave of their keys, and the kernel that puts it together.

In: for each part and row the sums of values, the largest score and the sum of weights, relative to it. Out: a launch
with a block for each row, whose warps read some parts each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, memref, scf

from aot.lower import rtcalls, tiling
from aot.lower.contract import onlinesoftmax, tiles
from aot.lower.contract.epilogue import Array, Place
from aot.lower.contract.flashjob import Attention
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies
from aot.lower.fast.accesses import load_vector
from aot.lower.fast.places import Extent

_WARP, _WARPS, _EACH = 32, 8, 4
MOST = _WARPS * _EACH
"""Parts."""
_LANES = 4
_PAIR = 4
"""Numbers for a row's largest score and its sum of weights, in shared memory."""


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

    def several(self) -> ir.Value:
        """Whether there is more than one, in host code."""
        return Word(rtcalls.index(1)).below(Word(self.count.value))

    def combine(self, job: Attention) -> None:
        """Launch the kernel, if there are several parts, and free their memory."""
        tiles.either(self.several(), lambda: _launch(job, self), lambda: None)
        for buffer in self.buffers:
            memref.DeallocOp(buffer)


def _launch(job: Attention, parts: Parts) -> None:
    one, rows = rtcalls.index(1), Word(job.output.m.value)
    blocks = rows * Word(job.output.batches())
    across = -(-job.width // (_WARP * _LANES)) * _WARP * _LANES
    size = arith.ConstantOp(ir.IntegerType.get_signless(32), _WARPS * (across + _PAIR) * 4).result
    threads = rtcalls.index(_WARPS * _WARP)
    op = gpu.LaunchOp((blocks.value, one, one), (threads, one, one), dynamic_shared_memory_size=size).operation
    tiling.mark(op, "attention", 0, "decode-combine", {"threads": _WARPS * _WARP, "width": job.width})
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
        self.pairs = Shared(element, [_WARPS, _PAIR], _WARPS * across * 4)

    def emit(self) -> None:
        """A warp's parts together, then those of all warps."""
        warp, lane = self.thread // _WARP, self.thread % _WARP
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
        return [lane * _LANES + first for first in range(0, self.across, _WARP * _LANES)]

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
        value = arith.MulFOp(value, onlinesoftmax.reciprocal(merged.total)).result
        *batch, row = self.row
        at = Place(tuple(batch), row, self.thread.index())
        done = self.job.output.epilogue
        done.store(done.values(value, at), at)


def _like(factor: ir.Value, part: ir.Value) -> ir.Value:
    return bodies.broadcast(factor, _LANES) if isinstance(part.type, ir.VectorType) else factor
