"""Results of the blocks of a cluster: each block writes its own into the shared memory of all.

In: what a block has found. Out: what each block has found, one in each lane.

The words travel by ``st.async``, and are counted by a barrier of the block that they go to. So nothing waits for what
else a block has written, as a fence before a barrier of the whole cluster would, and a block that has all words may
end: nobody reads from it. Each exchange has a barrier of its own: a fast block may be one exchange ahead of a slow one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, memref, nvvm

from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

BARRIER_BYTES = 8
_WORD, _LONG = 32, 64
_SHARED = "!llvm.ptr<3>"
_STORE = """{{
.reg .b32 place, counter;
mapa.shared::cluster.u32 place, $1, $3;
mapa.shared::cluster.u32 counter, $2, $3;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b{bits} [place], $0, [counter];
}}"""
_WAIT = """{
.reg .pred done;
AGAIN:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [$0], 0;
@!done bra AGAIN;
}"""


@dataclass
class ClusterExchange:
    """Exchanges of one kernel."""

    blocks: int
    """Of the cluster."""
    block: ir.Value
    """Number of this one in it."""
    thread: ir.Value
    """Number of the thread in its block: there are at least as many as blocks."""
    barriers: ir.Value
    """Shared memory of the barriers, one for each exchange."""
    used: int = 0

    def enter(self, count: int) -> None:
        """At the beginning: make as many barriers, and say that this block runs."""
        with branches.guard(self._is(0)):
            for number in range(count):
                nvvm.MBarrierInitOp(_pointer(self._barrier(number)), _constant(1))
            nvvm.FenceMbarrierInitOp()
        nvvm.cluster_arrive_relaxed()

    def all(self, values: Sequence[ir.Value], slot: Callable[[ir.Type], ir.Value]) -> list[ir.Value]:
        """In each lane what one block has; ``slot`` gives shared memory for elements of a type, a warp of them."""
        if not self.used:
            nvvm.cluster_wait()
        barrier = self._barrier(self.used)
        self.used += 1
        words = [_word(value) for value in values]
        slots = [slot(word.type) for word in words]
        with branches.guard(self._is(0)):
            size = self.blocks * sum(rtcalls.storage_bytes(word.type) for word in words)
            nvvm.MBarrierArriveExpectTxOp(None, _pointer(barrier), _constant(size))
        below = arith.CmpIOp(arith.CmpIPredicate.ult, self.thread, rtcalls.index(self.blocks)).result
        with branches.guard(below):
            other = _short(self.thread)
            for word, memory in zip(words, slots, strict=True):
                _send(word, _element(memory, self.block), barrier, other)
        llvm.InlineAsmOp(None, [barrier], _WAIT, "r,~{memory}", has_side_effects=True)
        lane = arith.RemUIOp(self.thread, rtcalls.index(self.blocks)).result
        found = [memref.LoadOp(memory, [lane]).result for memory in slots]
        return [_value(word, value.type) for word, value in zip(found, values, strict=True)]

    def _is(self, number: int) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.eq, self.thread, rtcalls.index(number)).result

    def _barrier(self, number: int) -> ir.Value:
        return _element(self.barriers, rtcalls.index(number))


def _send(word: ir.Value, place: ir.Value, barrier: ir.Value, block: ir.Value) -> None:
    """Write a word to the same place of another block, and count it there."""
    bits = ir.IntegerType(word.type).width
    kind = "r" if bits == _WORD else "l"
    operands = [word, place, barrier, block]
    llvm.InlineAsmOp(None, operands, _STORE.format(bits=bits), f"{kind},r,r,r,~{{memory}}", has_side_effects=True)


def _element(memory: ir.Value, number: ir.Value) -> ir.Value:
    """Address of an element in shared memory, in 32 bits."""
    size = rtcalls.storage_bytes(ir.MemRefType(memory.type).element_type)
    base = memref.ExtractAlignedPointerAsIndexOp(memory).result
    return _short(arith.AddIOp(base, arith.MulIOp(number, rtcalls.index(size)).result).result)


def _short(value: ir.Value) -> ir.Value:
    return arith.IndexCastOp(ir.IntegerType.get_signless(_WORD), value).result


def _constant(value: int) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(_WORD), value).result


def _pointer(address: ir.Value) -> ir.Value:
    return llvm.IntToPtrOp(ir.Type.parse(_SHARED), address).res


def _word(value: ir.Value) -> ir.Value:
    """The bits of a number in a word of 32 or 64."""
    if isinstance(value.type, ir.IndexType):
        return arith.IndexCastOp(ir.IntegerType.get_signless(_LONG), value).result
    bits = ir.IntegerType.get_signless(value.type.width)
    value = value if value.type == bits else arith.BitcastOp(bits, value).result
    word = ir.IntegerType.get_signless(_WORD if bits.width <= _WORD else _LONG)
    return value if bits == word else arith.ExtUIOp(word, value).result


def _value(word: ir.Value, kind: ir.Type) -> ir.Value:
    """The number of such a word."""
    if isinstance(kind, ir.IndexType):
        return arith.IndexCastOp(kind, word).result
    bits = ir.IntegerType.get_signless(kind.width)
    value = word if word.type == bits else arith.TruncIOp(bits, word).result
    return value if kind == bits else arith.BitcastOp(kind, value).result
