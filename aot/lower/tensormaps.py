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
from aot.lower import rtcalls


@dataclass(frozen=True)
class Axis:
    """One axis of a TMA descriptor."""

    extent: mlir.Value
    stride: mlir.Value
    """In bytes; the innermost axis is contiguous whatever it says."""
    box: mlir.Value
    """Elements that one copy takes along the axis."""


def tensor_map(address: mlir.Value, axes: Sequence[Axis], kind: int, swizzle: int) -> mlir.Value:
    """A TMA descriptor for the next launch, as ``byvalue`` says; axes from the innermost on.

    ``kind`` is a CUtensorMapDataType, ``swizzle`` a CUtensorMapSwizzle.
    """
    for axis in axes:
        rtcalls.call("aot_rt_tensor_axis", axis.extent, axis.stride, axis.box)
    i32 = ir.IntegerType.get_signless(32)
    return rtcalls.call(
        rtcalls.TENSOR_MAP, address, arith.ConstantOp(i32, kind).result, arith.ConstantOp(i32, swizzle).result
    )
