"""TMA descriptors made by host code of schedules.

In: an array's address, its axes, its element type, at an insertion point in host code. Out: the descriptor, for use in
the next ``gpu.launch`` (``byvalue`` says how it gets into the kernel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.hostmodule import rtcalls


@dataclass(frozen=True)
class Axis:
    """One axis of a TMA descriptor."""

    extent: mlir.Value
    stride: mlir.Value
    """In bytes; the innermost axis is contiguous whatever it says."""
    box: mlir.Value
    """Elements that one copy takes along the axis."""


@dataclass(frozen=True)
class Walk:
    """How copies that walk over pixels go along an axis: a convolution's windows begin at some places of it only."""

    step: mlir.Value
    reach: mlir.Value
    """Elements at the end at which none begins."""


def tensor_map(address: mlir.Value, axes: Sequence[Axis], kind: int, swizzle: int) -> mlir.Value:
    """A TMA descriptor for the next launch, as ``byvalue`` says; axes from the innermost on.

    ``kind`` is a CUtensorMapDataType, ``swizzle`` a CUtensorMapSwizzle.
    """
    for axis in axes:
        _describe(axis)
    return _made(address, kind, swizzle)


def walked_map(
    address: mlir.Value, axes: Sequence[tuple[Axis, Walk | None]], pixels: mlir.Value, kind: int, swizzle: int
) -> mlir.Value:
    """The same for copies that take so many pixels one after the other, through all axes but the innermost."""
    for axis, walk in axes:
        _describe(axis)
        if walk is not None:
            rtcalls.call("aot_rt_tensor_walk", walk.step, walk.reach)
    rtcalls.call("aot_rt_tensor_pixels", pixels)
    return _made(address, kind, swizzle)


def _describe(axis: Axis) -> None:
    rtcalls.call("aot_rt_tensor_axis", axis.extent, axis.stride, axis.box)


def _made(address: mlir.Value, kind: int, swizzle: int) -> mlir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return rtcalls.call(
        rtcalls.TENSOR_MAP, address, arith.ConstantOp(i32, kind).result, arith.ConstantOp(i32, swizzle).result
    )
