"""Partial results of a row's threads become one result that all of them know.

In: what combines them, and each thread's partial results. Out: the combined ones, the same in every thread of the row,
combined in an order that does not depend on timing.

Up to 32 threads exchange by shuffles; more threads leave one result per warp in shared memory, and read all of them.
The number of warps is any: lanes that find none take neutral values. Blocks of a cluster read each other's results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mlir import ir
from mlir.dialects import arith, gpu, llvm, memref, nvvm, scf

from aot.arch import WARP
from aot.lower import devicemath, rtcalls
from aot.lower.fast import bodies

SLOT_BYTES = WARP * 8
"""Shared memory for one value of each warp of a block."""
_BYTE = 8
SHARED = "#gpu.address_space<workgroup>"
_OWN, _CLUSTER = "!llvm.ptr<3>", "!llvm.ptr<7>"
"""Pointers to shared memory of the block, and of any block of the cluster."""


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
    blocks: int = 1
    """Of the cluster that works on a row."""
    used: int = 0
    """Bytes of it that are taken."""

    def all(self, combiner: Combiner, partial: Sequence[ir.Value], neutral: Sequence[ir.Value]) -> list[ir.Value]:
        """Combine the partial results of all threads of a row."""
        if self.threads <= WARP:
            return _butterfly(combiner, partial, self.threads)
        done = self._across_warps(combiner, _butterfly(combiner, partial, WARP), neutral)
        return done if self.blocks == 1 else self._across_blocks(combiner, done)

    def _across_warps(
        self, combiner: Combiner, values: Sequence[ir.Value], neutral: Sequence[ir.Value]
    ) -> list[ir.Value]:
        warps = self.threads // WARP
        slots = [self._slot(value.type) for value in values]
        warp = arith.DivUIOp(self.thread, rtcalls.index(WARP)).result
        lane = arith.RemUIOp(self.thread, rtcalls.index(WARP)).result
        first = arith.CmpIOp(arith.CmpIPredicate.eq, lane, rtcalls.index(0)).result
        branch = scf.IfOp(first)
        with ir.InsertionPoint(branch.then_block):
            for value, slot in zip(values, slots, strict=True):
                memref.StoreOp(value, slot, [warp])
            scf.YieldOp([])
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

    def _across_blocks(self, combiner: Combiner, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Each block leaves its result in its shared memory; lanes read those of all blocks."""
        slots = [self._slot(value.type) for value in values]
        first = arith.CmpIOp(arith.CmpIPredicate.eq, self.thread, rtcalls.index(0)).result
        branch = scf.IfOp(first)
        with ir.InsertionPoint(branch.then_block):
            for value, slot in zip(values, slots, strict=True):
                memref.StoreOp(value, slot, [rtcalls.index(0)])
            scf.YieldOp([])
        nvvm.cluster_arrive()
        nvvm.cluster_wait()
        word = ir.IntegerType.get_signless(32)
        block = arith.IndexCastOp(word, arith.RemUIOp(self.thread, rtcalls.index(self.blocks)).result).result
        found = [_remote(slot, block, value.type) for slot, value in zip(slots, values, strict=True)]
        return _butterfly(combiner, found, self.blocks)

    def leave(self) -> None:
        """Before a block of a cluster ends: others may still read from it."""
        if self.blocks > 1:
            nvvm.cluster_arrive()
            nvvm.cluster_wait()

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


def _remote(slot: ir.Value, block: ir.Value, kind: ir.Type) -> ir.Value:
    """What another block of the cluster has in its slot."""
    word = ir.IntegerType.get_signless(64)
    address = arith.IndexCastOp(word, memref.ExtractAlignedPointerAsIndexOp(slot).result).result
    own = llvm.IntToPtrOp(ir.Type.parse(_OWN), address).res
    there = nvvm.mapa(ir.Type.parse(_CLUSTER), own, block)
    if isinstance(kind, ir.IndexType):
        return arith.IndexCastOp(kind, llvm.LoadOp(word, there).res).result
    if isinstance(kind, ir.FloatType) and kind.width <= _BYTE:
        # LLVM has no such type: it is stored as a byte.
        byte = llvm.LoadOp(ir.IntegerType.get_signless(_BYTE), there).res
        bits = ir.IntegerType.get_signless(kind.width)
        return arith.BitcastOp(kind, byte if kind.width == _BYTE else arith.TruncIOp(bits, byte).result).result
    return llvm.LoadOp(kind, there).res


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
