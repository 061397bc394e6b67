"""TMA descriptors of a problem's arrays, made by host code, and where the boxes of a tile lie.

In: a factor or the result's array, and the tile's extents. Out: Boxes: the descriptor, the loops around the product
that it has an axis for, and what one copy takes.

A factor's tile in shared memory has rows of 128 bytes, 64 elements of the contiguous loop each: one box of all rows
where that loop is the summed one, else a box of 64 x 64 for each 64 of the outer loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower import rtcalls, tensormaps
from aot.lower.contract.epilogue import Array
from aot.lower.contract.hopper import SWIZZLE_ROW
from aot.lower.contract.problem import Factor, Problem, address
from aot.lower.contract.words import Word
from aot.lower.fast.places import Extent
from aot.lower.tensormaps import Axis

DEPTH = 64
"""Steps of the summed loop that a stage holds: 128 bytes of 16-bit elements."""
MOST_AXES = 5
_TYPES = {"f16": 6, "f32": 7, "bf16": 9}
"""Element type -> CUtensorMapDataType."""
_SWIZZLE_128B = 3


@dataclass(frozen=True, eq=False)
class Boxes:
    """An array as copies see it."""

    map: ir.Value
    """Descriptor; its axes are the contiguous loop, the other one, and loops around the product from the inside."""
    loops: tuple[int, ...]
    """Which of the loops around the product have an axis, in the order of the axes."""
    rows: int
    """Elements of the outer loop that one box has room for."""
    box: ir.Value
    """Those that it takes; a value of host code."""

    def at(self, inner: Word, other: Word, batch: Sequence[Word]) -> list[Word]:
        """Coordinates of a box."""
        return [inner, other, *(batch[loop] for loop in self.loops)]


def kept(strides: Sequence[Extent]) -> tuple[int, ...]:
    """Loops around the product in which an operand's elements differ, from the innermost on."""
    return tuple(number for number, each in reversed(list(enumerate(strides))) if each.static != 0)


def of_factor(
    factor: Factor, outer: Extent, job: Problem, rows: int, *, few: bool = False, steps: int = DEPTH
) -> Boxes:
    """Boxes of a factor: of ``rows`` of its outer loop, or, where that is the contiguous one, of 64 and ``steps``.

    ``few``: where the outer loop is shorter, of no more than it has, in multiples of 8.
    """
    box = rtcalls.index(DEPTH if factor.turned else rows)
    if few and not factor.turned:
        box = (Word(outer.value).tiles(8) * 8).least(rows).value
    sides = [(job.k, rtcalls.index(steps if factor.turned else DEPTH)), (outer, box)]
    if factor.turned:
        sides.reverse()
    loops = kept(factor.batch)
    axes = [*sides, *((job.batch[loop], rtcalls.index(1)) for loop in loops)]
    strides = [None, factor.pitch, *(factor.batch[loop] for loop in loops)]
    made = _map(factor.memory, factor.element, axes, strides)
    return Boxes(made, loops, DEPTH if factor.turned else rows, box)


def of_result(array: Array, job: Problem, rows: int) -> Boxes:
    """Boxes of 128 bytes of the result's rows."""
    element = ir.MemRefType(array.memory.type).element_type
    *batch, pitch, _ = array.strides
    loops = kept(batch)
    columns, box = rtcalls.index(SWIZZLE_ROW // rtcalls.storage_bytes(element)), rtcalls.index(rows)
    axes = [(job.n, columns), (job.m, box), *((job.batch[loop], rtcalls.index(1)) for loop in loops)]
    made = _map(array.memory, element, axes, [None, pitch, *(batch[loop] for loop in loops)])
    return Boxes(made, loops, rows, box)


def _map(
    memory: ir.Value,
    element: ir.Type,
    axes: Sequence[tuple[Extent, ir.Value]],
    strides: Sequence[Extent | None],
) -> ir.Value:
    size = rtcalls.index(rtcalls.storage_bytes(element))
    found = [
        Axis(extent.value, size if stride is None else arith.MulIOp(stride.value, size).result, box)
        for (extent, box), stride in zip(axes, strides, strict=True)
    ]
    return tensormaps.tensor_map(address(memory), found, _TYPES[str(element)], _SWIZZLE_128B)
