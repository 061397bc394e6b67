"""TMA descriptors of a problem's arrays, made by host code, and where the boxes of a tile lie.

In: a factor or the result's array, and the tile's extents. Out: Boxes: the descriptor, the loops around the product
that it has an axis for, and what one copy takes.

A factor's tile in shared memory has rows of 128 bytes of the contiguous loop: one box of all rows where that loop is
the summed one, else (for elements of two bytes) a box of 64 x 64 for each 64 of the outer loop. Of a convolution's left
factor one copy takes all rows, too: it walks over the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.codegen.hopper import SWIZZLE_ROW
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.epilogue import Array, constant_index
from aot.lower.contract.products.problem import Factor, Problem, Window, address
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tensormaps
from aot.lower.launches.tensormaps import Axis, Walk

DEPTH = 64
"""Steps of the summed loop that a stage holds of 16-bit elements: 128 bytes."""
MOST_AXES = 5
_TYPES = {"i8": 0, "f8E4M3FN": 0, "f8E5M2": 0, "i32": 3, "f16": 6, "f32": 7, "bf16": 9}
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


def of_factor(factor: Factor, outer: Extent, job: Problem, rows: int, *, few: bool = False, steps: int = 0) -> Boxes:
    """Boxes of a factor: of ``rows`` of its outer loop, or, where that is contiguous, of 128 bytes of it and ``steps``.

    ``steps``: of the summed loop; 0: as many as a box has of it where that one is contiguous.
    ``few``: where the outer loop is shorter, of no more than it has, in multiples of 8.
    """
    depth = SWIZZLE_ROW // rtcalls.storage_bytes(factor.element)
    box = rtcalls.index(depth if factor.turned else rows)
    if few and not factor.turned:
        box = (Word(outer.value).tiles(8) * 8).least(rows).value
    sides = [(job.k, rtcalls.index((steps or depth) if factor.turned else depth)), (outer, box)]
    if factor.turned:
        sides.reverse()
    loops = kept(factor.batch)
    axes = [*sides, *((job.batch[loop], rtcalls.index(1)) for loop in loops)]
    strides = [None, factor.pitch, *(factor.batch[loop] for loop in loops)]
    made = _map(factor.memory, factor.element, axes, strides)
    return Boxes(made, loops, depth if factor.turned else rows, box)


def of_pixels(window: Window, factor: Factor, rows: int) -> Boxes:
    """Walks over so many places of a convolution's windows, of which each reads 64 elements of a pixel.

    Axes end where the last window does, whatever follows in memory: so walks go from window to window as ``m`` does.
    """
    (channels, _), one = window.k[-1], rtcalls.index(1)
    element = rtcalls.index(rtcalls.storage_bytes(factor.element))
    found: list[tuple[Axis, Walk | None]] = [(Axis(channels.value, element, rtcalls.index(DEPTH)), None)]
    filters = {axis: (extent, by) for (extent, _), (axis, by) in zip(window.k[:-1], window.places[1], strict=False)}
    for (extent, _), (axis, step) in reversed(list(zip(window.m, window.places[0], strict=True))):
        size, by = filters.get(axis, (constant_index(1), 1))
        reach = (Word(size.value) - 1) * by
        length = (Word(extent.value) - 1) * step + 1 + reach
        stride = arith.MulIOp(window.axes[axis].value, element).result
        walk = Walk(rtcalls.index(step), reach.value) if axis else None
        found.append((Axis(length.value, stride, one), walk))
    kind = _TYPES[str(factor.element)]
    pixels = rtcalls.index(rows)
    made = tensormaps.walked_map(address(factor.memory), found, pixels, kind, _SWIZZLE_128B)
    return Boxes(made, (), rows, pixels)


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
