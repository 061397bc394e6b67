"""Results whose rows begin at any element: through shared memory, from where warps store along rows.

In: as ``wgmmastore``. Out: stores of words of four bytes, and of single elements at the ends of what a warp has of a
row. Each thread storing its own elements would touch eight rows with every instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, gpu, llvm, nvvm, scf, vector

from aot.lower.contract.codegen import hopper, instructions, operand, tiles
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARP
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma.wgmmatile import CHUNK, Tile
from aot.lower.contract.wgmma.wgmmawriter import Pairs, Writer
from aot.lower.hostmodule import rtcalls

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Corner, Kernel

_HALF, _WHOLE = 2, 4
"""Bytes of elements that can be stored so."""
_ROWS = 16
"""Of a warp, in a chunk of a warpgroup's 64."""
_AT_A_TIME = 4
"""Rows that are on their way together."""
_HALF_BITS = 16


def can_store(job: Problem, tile: Tile) -> bool:
    """Whether there is one result, with neighbours along rows, of elements that fill words."""
    if len(job.epilogue.stores) != 1 or tile.is_split:
        return False
    array = job.epilogue.stores[0][0]
    size = rtcalls.storage_bytes(ir.MemRefType(array.memory.type).element_type)
    return array.along_n and size in (_HALF, _WHOLE) and tile.columns * size % SWIZZLE_ROW == 0


class Rows(Writer):
    """Along rows."""

    def __init__(self, kernel: Kernel, address: ir.Value) -> None:
        super().__init__(kernel)
        self.address, self.array = address, kernel.job.epilogue.stores[0][0]
        self.size = rtcalls.storage_bytes(ir.MemRefType(self.array.memory.type).element_type)
        self.columns = SWIZZLE_ROW // self.size
        own = kernel.consumer * (kernel.tile.chunks * CHUNK) + self.warp * (_ROWS * SWIZZLE_ROW)
        self.buffer = kernel.staging + own

    def write_rows(self, corner: Corner, top: Word, number: int, total: ir.Value) -> None:
        top = top + self.warp * _ROWS
        for chunk in range(self.kernel.tile.columns // self.columns):
            self._put(self._results(corner, top, chunk, total))
            self._store(corner, top, corner.n0 + chunk * self.columns)

    def _results(self, corner: Corner, top: Word, chunk: int, total: ir.Value) -> Pairs:
        return [
            tuple(self._pair(corner, top, chunk, block, half, total) for half in range(2))
            for block in range(self.columns // 8)
        ]

    def _put(self, results: Pairs) -> None:
        """A chunk goes to shared memory, once the warp has read the one before."""
        _warp_sync()
        if self.size == _HALF:
            hopper.store_halves(self.buffer, self.lane, lambda block, half: results[block][half])
        else:
            self.put_words(results, self.buffer)
        _warp_sync()

    def _pair(self, corner: Corner, top: Word, chunk: int, block: int, half: int, total: ir.Value) -> ir.Value:
        """Two neighbouring results, each by itself: rows may end between them."""
        row, number = top + (self.row + 8 * half), chunk * (self.columns // 8) + block
        values = []
        for place in range(2):
            column = corner.n0 + 8 * number + self.pair * 2 + place
            values += self.results(corner, row, column, [hopper.element_of(total, 4 * number + 2 * half + place)])
        return vector.FromElementsOp(ir.VectorType.get([2], values[0].type), values).result

    def _store(self, corner: Corner, top: Word, left: Word) -> None:
        """The warp's rows of a chunk."""
        batch = [each.index() for each in corner.batch]
        *outer, pitch, _ = self.array.strides
        start = operand.start(self.address, batch, outer, self.size) + left.wide() * self.size
        step = Word(pitch.value).wide() * self.size
        loop = scf.ForOp(constant(0).value, constant(_ROWS).value, constant(1).value)
        tiles.unrolled(loop.operation, _AT_A_TIME)
        with ir.InsertionPoint(loop.body):
            row = Word(loop.induction_variable)
            place = (self.lane // 4) ^ (row & 7)
            where = self.buffer + row * SWIZZLE_ROW + place * 16 + self.lane % 4 * 4
            word = Word(llvm.LoadOp(instructions.word(), hopper.pointer(where), alignment=4).result)
            begin = start + (top + row).wide() * step
            hopper.when((top + row).below(self.kernel.m), lambda: self._store_row(begin, left, word))
            scf.YieldOp([])

    def _store_row(self, begin: Word, left: Word, word: Word) -> None:
        """One row; ``begin``: address of the chunk's first element in it."""
        if self.size == _WHOLE:
            inside = (left + self.lane).below(self.kernel.n)
            hopper.when(inside, lambda: _put(word, begin + (self.lane * _WHOLE).wide(), _WHOLE))
            return
        odd = Word(arith.TruncIOp(instructions.word(), begin.value).result) // _HALF & 1
        is_odd = odd.equals(1)
        before = gpu.ShuffleOp(word.value, constant(1).value, constant(WARP).value, gpu.ShuffleMode.UP).shuffleResult
        bits = constant(_HALF_BITS).value
        moved = llvm.intr_fshr(word.value, before, bits)
        whole = Word(moved).where(is_odd, word)
        first = arith.AndIOp(is_odd, self.lane.equals(0)).result
        last = arith.AndIOp(is_odd, self.lane.equals(WARP - 1)).result
        # Of an odd row's first word only the second half is there, which is the first of its elements.
        single = word.where(first, whole)
        column = constant(0).where(first, self.lane * 2 - odd)
        inside = (left + column).below(self.kernel.n)
        both = (left + column + 1).below(self.kernel.n)
        both = arith.AndIOp(both, _not(first)).result
        target = begin + (column * _HALF).wide()
        hopper.when(
            both,
            lambda: _put(whole, target, _WHOLE),
            lambda: hopper.when(inside, lambda: _put(single, target, _HALF)),
        )
        end = self.columns - 1
        ends = arith.AndIOp(last, (left + end).below(self.kernel.n)).result
        hopper.when(ends, lambda: _put(word // (1 << _HALF_BITS), begin + end * _HALF, _HALF))


def _put(word: Word, address: Word, size: int) -> None:
    """Store a word, or the lower half of it."""
    value = word.value
    if size == _HALF:
        value = arith.TruncIOp(ir.IntegerType.get_signless(_HALF_BITS), value).result
    llvm.StoreOp(value, instructions.pointer(address, 1), alignment=size)


def _not(condition: ir.Value) -> ir.Value:
    return arith.XOrIOp(condition, arith.ConstantOp(ir.IntegerType.get_signless(1), True).result).result


def _warp_sync() -> None:
    nvvm.SyncWarpOp(constant(-1).value)
