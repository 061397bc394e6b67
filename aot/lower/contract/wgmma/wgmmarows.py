"""Results whose rows begin at any element: through shared memory, from where warps store along rows.

In: as ``wgmmastore``. Out: stores of words of four bytes, and of single elements at the ends of what a warp has of a
row. Each thread storing its own elements would touch eight rows with every instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, gpu, llvm, nvvm, scf, vector

from aot.lower.contract.codegen import hopper, instructions, operand, registers, sharednumbers, tiles
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
_WORD, _ACROSS = 0x7654, 0x5432
"""Numbers of a word's bytes among those of the word before it and its own; of what lies between their middles."""
_LOWER, _UPPER, _BEFORE = 0x54, 0x76, 0x32
"""Of a word's halves, and of the half before it."""


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
        lanes = None if self.size == _WHOLE else _Lanes(self.lane, left, self.kernel.n)
        loop = scf.ForOp(constant(0).value, constant(_ROWS).value, constant(_AT_A_TIME).value)
        tiles.unrolled(loop.operation, 1)
        with ir.InsertionPoint(loop.body):
            rows = [Word(loop.induction_variable) + number for number in range(_AT_A_TIME)]
            words = [self._word(row) for row in rows]
            before = [_from_lane_below(word) if lanes else word for word in words]
            _warp_sync()
            for row, word, other in zip(rows, words, before, strict=True):
                begin, inside = start + (top + row).wide() * step, (top + row).below(self.kernel.m)
                if lanes:
                    lanes.store(begin, inside, word, other)
                else:
                    there = arith.AndIOp(inside, (left + self.lane).below(self.kernel.n)).result
                    _put(word, begin + (self.lane * _WHOLE).wide(), _WHOLE, there)
            scf.YieldOp([])

    def _word(self, row: Word) -> Word:
        """This lane's word of a row of the buffer; read here, or the rows would wait for each other's conditions."""
        piece = (self.lane // 4) ^ (row & 7)
        where = self.buffer + row * SWIZZLE_ROW + piece * 16 + self.lane % 4 * 4
        return Word(sharednumbers.read_here(where, instructions.word(), sharednumbers.WORD))


class _Lanes:
    """What lanes store of 64 halves of a row: a word where both of its elements are there, and single elements.

    Each stores to an aligned word. Those of an odd row, which begins in the middle of one, have an element of the lane
    below: the first lane stores the second half alone, and the last one the first half of the word behind its own.
    Bits say what is to be stored, and bytes' numbers what of two words: there are too few predicates for some rows.
    """

    def __init__(self, lane: Word, left: Word, columns: Word) -> None:
        first, even, odd = lane.equals(0), left + lane * 2, left + lane * 2 - 1
        wide = ((even + 1).below(columns), _both(_not(first), (odd + 1).below(columns)))
        behind = _both(lane.equals(WARP - 1), wide[1])
        self.place = constant(_HALF).where(first, constant(_WHOLE).where(behind, 0))
        """Bytes from a lane's word to the element of an odd row that it stores alone, if any."""
        self.end = constant(_LOWER).where(first, constant(_UPPER).where(behind, _BEFORE))
        """That element."""
        alone = (_not(wide[0]), arith.OrIOp(_not(wide[1]), behind).result)
        single = zip(alone, (even, odd + self.place // _HALF), strict=True)
        stored = [*wide, *(_both(each, column.below(columns)) for each, column in single)]
        bits = [constant(1 << number).where(each, 0) for number, each in enumerate(stored)]
        self.stored = registers.here(bits[0] | bits[1] | bits[2] | bits[3])
        """A word of an even row, of an odd one; a single element of either."""
        self.offset = (lane * _WHOLE).wide()

    def store(self, begin: Word, inside: ir.Value, word: Word, before: Word) -> None:
        """A row that begins at an address, if it is in the result; ``before``: the word of the lane below."""
        odd = Word(arith.TruncIOp(instructions.word(), begin.value).result) // _HALF & 1
        is_odd = odd.equals(1)
        stored = self.stored.moved_down(odd).where(inside, 0)
        target = (begin & -_WHOLE) + self.offset
        whole = instructions.bytes_of(before, word, constant(_ACROSS).where(is_odd, _WORD))
        _put(whole, target, _WHOLE, (stored & 1).equals(1))
        end = instructions.bytes_of(before, word, self.end.where(is_odd, _LOWER))
        _put(end, target + self.place.where(is_odd, 0).wide(), _HALF, (stored & 4).equals(4))


def _from_lane_below(word: Word) -> Word:
    one, all_ = constant(1).value, constant(WARP).value
    return Word(gpu.ShuffleOp(word.value, one, all_, gpu.ShuffleMode.UP).shuffleResult)


def _put(word: Word, address: Word, size: int, condition: ir.Value) -> None:
    """Store a word, or the lower half of it."""
    value = word.value
    if size == _HALF:
        value = arith.TruncIOp(ir.IntegerType.get_signless(_HALF_BITS), value).result
    hopper.when(condition, lambda: llvm.StoreOp(value, instructions.pointer(address, 1), alignment=size))


def _both(one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.AndIOp(one, other).result


def _not(condition: ir.Value) -> ir.Value:
    return arith.XOrIOp(condition, arith.ConstantOp(ir.IntegerType.get_signless(1), True).result).result


def _warp_sync() -> None:
    nvvm.SyncWarpOp(constant(-1).value)
