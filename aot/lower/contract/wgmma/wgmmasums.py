"""A tile's sums in a ``wgmma`` kernel where tensor cores do not simply add to them.

In: the kernel, the stages that were used before the tile, and descriptors of the first stage's factors. Out: a thread's
sums. Small floats are added up in full precision outside of the tensor cores; a left factor that only registers can
give them comes through these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, llvm, scf

from aot.lower.contract.codegen import hopper, instructions, registers, sharednumbers
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARP
from aot.lower.contract.codegen.instructions import DEPTH_BYTES
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products import epilogue

if TYPE_CHECKING:
    from aot.lower.contract.wgmma.wgmma import Kernel

_TOGETHER = 128
"""Columns of which registers hold the sums of small floats twice."""


def added(kernel: Kernel, used: Word, left: Word, right: Word) -> list[ir.Value]:
    """Sums of small floats. Tensor cores keep few bits of their sums: a stage's are added in full precision.

    Columns come in parts: of wide tiles one after the other, since all sums a second time would take too many
    registers, else two together, of which one is added while the other is multiplied.
    """
    columns, turns = _parts(kernel.tile.columns)
    zero = hopper.zeros(columns)
    loop = scf.ForOp(constant(0).value, kernel.steps.value, constant(1).value, [zero] * sum(map(len, turns)))
    with ir.InsertionPoint(loop.body):
        slot, moved = kernel.arrived(used + Word(loop.induction_variable))
        sums = list(loop.inner_iter_args)
        for parts in turns:
            begun = [_part(kernel, left + moved, right + moved, columns, part) for part in parts]
            for waiting, part in reversed(list(enumerate(reversed(parts)))):
                hopper.await_products(waiting)
                if part == len(sums) - 1:
                    kernel.release(slot, None)
                sums[part] = _plus(sums[part], begun[part - parts[0]])
        scf.YieldOp(sums)
    return [_joined(list(loop.results))]


def _plus(total: ir.Value, products: ir.Value) -> ir.Value:
    """Both sums together; of products that were waited for."""
    count = len(llvm.StructType(total.type).body)
    # What is held is used no earlier than here.
    parts = registers.held([hopper.element_of(products, number) for number in range(count)])
    made = llvm.UndefOp(total.type).result
    for number, part in enumerate(parts):
        value = arith.AddFOp(hopper.element_of(total, number), part).result
        made = llvm.InsertValueOp(made, value, ir.DenseI64ArrayAttr.get([number])).result
    return made


def _part(kernel: Kernel, left: Word, right: Word, columns: int, part: int) -> ir.Value:
    """Begin a stage's products of so many columns, and nothing else in their sums."""
    fresh = llvm.UndefOp(hopper.sums(columns)).result
    other = hopper.moved(right, part * columns * SWIZZLE_ROW)
    (begun,) = kernel.products([fresh], left, other, columns=columns, fresh=True)
    return begun


def _parts(columns: int) -> tuple[int, list[range]]:
    """Columns of a part of small floats' sums, and the parts that are under way together, in turn."""
    if columns > _TOGETHER:
        count = -(-columns // _TOGETHER)
        return columns // count, [range(part, part + 1) for part in range(count)]
    count = 2 if columns == _TOGETHER else 1
    return columns // count, [range(count)]


def from_registers(kernel: Kernel, used: Word, right: Word) -> list[ir.Value]:
    """Sums with a left factor of four bytes, turned: each thread reads its numbers of it from shared memory."""
    assert kernel.tile.rows == 64 * kernel.tile.groups
    places = _numbers(kernel)
    sums = [epilogue.zero(ir.F32Type.get())] * (kernel.tile.columns // 2)
    loop = scf.ForOp(constant(0).value, kernel.steps.value, constant(1).value, sums)
    with ir.InsertionPoint(loop.body):
        slot, moved = kernel.arrived(used + Word(loop.induction_variable))
        stage, sums = slot * kernel.tile.stage_bytes, list(loop.inner_iter_args)
        words = [
            [
                sharednumbers.read_here(place + stage + step * 8 * SWIZZLE_ROW, instructions.word(), sharednumbers.WORD)
                for place in places
            ]
            for step in range(SWIZZLE_ROW // DEPTH_BYTES)
        ]
        hopper.begin_products()
        for step, mine in enumerate(words):
            other = hopper.moved(right + moved, DEPTH_BYTES * step)
            sums = registers.multiply(sums, mine, other, kernel.kind.name, turned=False)
        hopper.end_products()
        hopper.await_products(0)
        kernel.release(slot, None)
        scf.YieldOp(registers.held(sums))
    return [_together(list(loop.results))]


def _numbers(kernel: Kernel) -> list[Word]:
    """Where a thread's four numbers of 64 rows lie in the first stage, whose rows have 32 of the factor's."""
    warp, row, step = kernel.lane // WARP, kernel.lane % WARP // 4, kernel.lane % 4
    first = kernel.consumer * 64 + warp * 16 + row
    found = []
    for below, number in (((first + down), step + deep) for deep in (0, 4) for down in (0, 8)):
        box, inner = below // 32, below % 32
        piece = inner // 4 ^ number
        found.append(kernel.ring + (box * 32 + number) * SWIZZLE_ROW + piece * 16 + inner % 4 * 4)
    return found


def _joined(parts: Sequence[ir.Value]) -> ir.Value:
    """Sums of neighbouring columns as one."""
    return _together(
        [hopper.element_of(each, number) for each in parts for number in range(len(llvm.StructType(each.type).body))]
    )


def _together(members: Sequence[ir.Value]) -> ir.Value:
    """A thread's sums as one value."""
    made = llvm.UndefOp(hopper.sums(2 * len(members))).result
    for number, member in enumerate(members):
        made = llvm.InsertValueOp(made, member, ir.DenseI64ArrayAttr.get([number])).result
    return made
