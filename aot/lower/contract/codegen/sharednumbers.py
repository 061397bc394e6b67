"""Numbers in shared memory by their address: of this block, or of another one of its cluster.

In: addresses as 32-bit words, values, at an insertion point in a kernel; for sm_90a, where another block is meant. Out:
loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import llvm, nvvm, vector

from aot.lower.contract.codegen.hopper import pointer
from aot.lower.contract.codegen.words import Word

WORD = 4
"""Bytes."""
Read = Callable[[Word, ir.Type, int], ir.Value]
"""Reads a number or a vector: its address, type and bytes."""


def keep(address: Word, values: Sequence[ir.Value]) -> None:
    """Neighbouring sums, two or four, go to shared memory."""
    together = vector.FromElementsOp(ir.VectorType.get([len(values)], values[0].type), list(values)).result
    llvm.StoreOp(together, pointer(address), alignment=len(values) * WORD)


def kept(address: Word, block: Word, element: ir.Type, count: int) -> list[ir.Value]:
    """So many of them from the shared memory of a block of the cluster."""
    kind = ir.VectorType.get([count], element)
    together = llvm.LoadOp(kind, _remote(address, block), alignment=count * WORD).result
    return [vector.ExtractOp(together, [], [number]).result for number in range(count)]


def kept_number(address: Word, block: Word) -> ir.Value:
    """One f32 from there."""
    return llvm.LoadOp(ir.F32Type.get(), _remote(address, block), alignment=4).result


def give_number(address: Word, block: Word, value: ir.Value) -> None:
    """A number goes to the shared memory of a block of the cluster."""
    llvm.StoreOp(value, _remote(address, block))


def write_word(address: Word, word: Word) -> None:
    """A number goes to shared memory."""
    llvm.StoreOp(word.value, pointer(address), alignment=4)


def read_word(address: Word) -> Word:
    """A number from there."""
    return Word(read(address, ir.IntegerType.get_signless(32), WORD))


def read(address: Word, kind: ir.Type, size: int) -> ir.Value:
    """A number, or a vector, of so many bytes from shared memory."""
    return llvm.LoadOp(kind, pointer(address), alignment=size).result


def read_here(address: Word, kind: ir.Type, size: int) -> ir.Value:
    """The same, read where this stands.

    A load that a loop carries into its next turn LLVM would move to the beginning of that turn: behind the barrier, and
    before all that could hide how long it takes.
    """
    return llvm.LoadOp(kind, pointer(address), alignment=size, volatile_=True).result


class Aside:
    """Words of a block that are put into shared memory, and read where they are wanted: kept, they take registers.

    All threads write the same, and so each reads what it wrote.
    """

    def __init__(self, start: Word, words: Sequence[Word]) -> None:
        self.start = start
        for number, word in enumerate(words):
            write_word(start + number * WORD, word)

    def read(self, number: int) -> Word:
        """The word of this number."""
        return read_word(self.start + number * WORD)


def _remote(address: Word, block: Word) -> ir.Value:
    return nvvm.MapaOp(ir.Type.parse("!llvm.ptr<7>"), pointer(address), block.value).result
