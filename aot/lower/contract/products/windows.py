"""Left factors that are no matrix: the windows of a convolution over contiguous memory.

In: a contraction whose left operand is indexed by sums of loops, at the insertion point of its launch. Out: a Window,
and the matrix of the operand's pixels.

``x[n, 2 * h + r, w + s, c]``: ``m`` has the loops n, h, w, ``k`` the loops r, s, c, and each adds its own stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.epilogue import constant_index
from aot.lower.contract.products.problem import Factor, Window
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls

Loops = tuple[int, ...]


def window(contraction: Contraction, groups: tuple[Loops, Loops], extent_of: Callable[[int], Extent]) -> Window:
    """Strides of the loops of ``m`` and ``k``."""
    value = contraction.left.value
    extents = [_extent(value, axis) for axis in range(ir.MemRefType(value.type).rank)]
    strides = [constant_index(1)]
    for extent in reversed(extents[1:]):
        strides.insert(0, _times(strides[0], extent))

    places = tuple(tuple(contraction.left.axis(loop) for loop in group) for group in groups)

    def parts(group: Loops, moved: Sequence[tuple[int, int]]) -> tuple[tuple[Extent, Extent], ...]:
        return tuple(
            (extent_of(loop), _times(strides[axis], constant_index(by)))
            for loop, (axis, by) in zip(group, moved, strict=True)
        )

    total = constant_index(1)
    for extent in extents[:-1]:
        total = _times(total, extent)
    m, k = (parts(group, moved) for group, moved in zip(groups, places, strict=True))
    return Window(m, k, total, tuple(strides), (places[0], places[1]))


def _extent(value: ir.Value, axis: int) -> Extent:
    size = ir.MemRefType(value.type).shape[axis]
    if size != rtcalls.DYNAMIC:
        return constant_index(size)
    return Extent(memref.DimOp(value, rtcalls.index(axis)).result, None)


def _times(one: Extent, other: Extent) -> Extent:
    if one.static is not None and other.static is not None:
        return constant_index(one.static * other.static)
    return Extent(arith.MulIOp(one.value, other.value).result, None)


def pixels(contraction: Contraction, window: Window) -> Factor:
    """The matrix whose rows are pixels."""
    value, channels = contraction.left.value, window.k[-1][0]
    kind = ir.MemRefType(value.type)
    dynamic = window.pixels.static is None
    assert channels.static is not None
    shape = [rtcalls.DYNAMIC if dynamic else window.pixels.static, channels.static]
    strides = [channels.static, 1]
    layout = ir.StridedLayoutAttr.get(0, strides)
    view = memref.ReinterpretCastOp(
        *(ir.MemRefType.get(shape, kind.element_type, layout), value, [], [window.pixels.value] if dynamic else [], []),
        *([0], shape, strides),
    ).result
    return Factor(view, (), channels, constant_index(1), contraction.conversions[0])
