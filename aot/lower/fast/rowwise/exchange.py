"""Partial results of a row's threads become one result that all of them know.

In: what combines them, and each thread's partial results. Out: the combined ones, the same in every thread of the row,
combined in an order that does not depend on timing.

Up to 32 threads exchange by shuffles; more threads leave one result per warp in shared memory, and read all of them.
The number of warps is any: lanes that find none take neutral values. Blocks of a cluster exchange at last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mlir import ir
from mlir.dialects import arith, gpu, memref

from aot.lower.fast.regions import bodies
from aot.lower.fast.rowwise.clusterexchange import ClusterExchange
from aot.lower.gpumodule import devicemath
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches
from aot.targets.arch import WARP

SLOT_BYTES = WARP * 8
"""Shared memory for one value of each warp of a block."""
SHARED = "#gpu.address_space<workgroup>"


class Combiner(Protocol):
    """A reducer, or a tally."""

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """Two partial results together."""


@dataclass
class Exchange:
    """Exchanges of one kernel; each takes shared memory of its own, so that none waits for the one before."""

    threads: int
    """Threads that work on a row: a power of two, or whole warps."""
    thread: ir.Value
    """Number of the thread in its block."""
    shared: ir.Value | None
    """The block's shared memory, as bytes; None when no row needs it."""
    count: ir.Value | None = None
    """The threads that there are, at most ``threads``, where only the launch knows."""
    cluster: ClusterExchange | None = None
    """Of the blocks that work on a row; None where that is one."""
    used: int = 0
    """Bytes of it that are taken."""

    def all(self, combiner: Combiner, partial: Sequence[ir.Value], neutral: Sequence[ir.Value]) -> list[ir.Value]:
        """Combine the partial results of all threads of a row."""
        if self.threads <= WARP:
            return _butterfly(combiner, partial, self.threads)
        done = self._across_warps(combiner, _butterfly(combiner, partial, WARP), neutral)
        if self.cluster is None:
            return done
        return _butterfly(combiner, self.cluster.all(done, self._slot), self.cluster.blocks)

    def _across_warps(
        self, combiner: Combiner, values: Sequence[ir.Value], neutral: Sequence[ir.Value]
    ) -> list[ir.Value]:
        warps = self.threads // WARP
        slots = [self._slot(value.type) for value in values]
        warp = arith.DivUIOp(self.thread, rtcalls.index(WARP)).result
        lane = arith.RemUIOp(self.thread, rtcalls.index(WARP)).result
        first = arith.CmpIOp(arith.CmpIPredicate.eq, lane, rtcalls.index(0)).result
        with branches.guard(first):
            for value, slot in zip(values, slots, strict=True):
                memref.StoreOp(value, slot, [warp])
        gpu.BarrierOp()
        lanes = 1 << (warps - 1).bit_length()
        mine = arith.RemUIOp(lane, rtcalls.index(lanes)).result
        if lanes == warps and self.count is None:
            return _butterfly(combiner, [memref.LoadOp(slot, [mine]).result for slot in slots], lanes)
        there = rtcalls.index(warps)
        if self.count is not None:
            there = arith.DivUIOp(self.count, rtcalls.index(WARP)).result
        taken = arith.CmpIOp(arith.CmpIPredicate.ult, mine, there).result
        place = arith.SelectOp(taken, mine, rtcalls.index(0)).result
        found = [
            arith.SelectOp(taken, memref.LoadOp(slot, [place]).result, other).result
            for slot, other in zip(slots, neutral, strict=True)
        ]
        return _butterfly(combiner, found, lanes)

    def _slot(self, kind: ir.Type) -> ir.Value:
        assert self.shared is not None
        view = memref.ViewOp(
            ir.MemRefType.get([WARP], kind, memory_space=ir.Attribute.parse(SHARED)),
            self.shared,
            rtcalls.index(self.used),
            [],
        )
        self.used += SLOT_BYTES
        return view.result


def _butterfly(combiner: Combiner, values: Sequence[ir.Value], threads: int) -> list[ir.Value]:
    done = list(values)
    step = threads // 2
    while step:
        done = combiner.combine(done, [partners(value, step) for value in done])
        step //= 2
    return done


def partners(value: ir.Value, step: int) -> ir.Value:
    """What the thread of the warp has whose number differs in the bit ``step``; vectors go element by element."""
    if isinstance(value.type, ir.VectorType):
        return bodies.pack([partners(each, step) for each in bodies.unpack(value)])
    if not isinstance(value.type, ir.IndexType):
        return devicemath.exchanged(value, step)
    word = arith.IndexCastOp(ir.IntegerType.get_signless(64), value).result
    return arith.IndexCastOp(value.type, devicemath.exchanged(word, step)).result


def shared_memory() -> ir.Value:
    """The dynamic shared memory of the block."""
    dynamic = ir.ShapedType.get_dynamic_size()
    byte = ir.IntegerType.get_signless(8)
    kind = ir.MemRefType.get([dynamic], byte, memory_space=ir.Attribute.parse(SHARED))
    return gpu.DynamicSharedMemoryOp(kind).result
