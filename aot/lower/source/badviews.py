"""Dimensions that are collapsed into one, but do not lie behind one another in memory.

In: a module. Out: LoweringError for them. A cast may say of strides that they are not known: MLIR looks through it when
it simplifies, finds that nothing fits, and ends the process.

``memref.collapse_shape %y [[0, 1]]`` of ``%y = memref.cast %x : memref<8x8xf32, strided<[1, 8]>> to …`` is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import opwalk
from aot.lower.tolinalg.splitloops import groups_of

_STEPS = "static_strides"


@dataclass(frozen=True)
class _Axis:
    """What is known of a dimension of a buffer; None where it is nothing."""

    size: int | None
    stride: int | None
    """In elements."""

    def joined(self, other: _Axis) -> _Axis:
        """What either knows."""
        return _Axis(
            self.size if other.size is None else other.size, self.stride if other.stride is None else other.stride
        )


def check(module: mlir.Module) -> None:
    """Refuse them."""
    problems = []
    for op in opwalk.named(module, "memref.collapse_shape"):
        axes = _axes(op.operands[0])
        for group in groups_of(op):
            if _are_apart([axes[axis] for axis in group]):
                strides = ", ".join("?" if axes[axis].stride is None else str(axes[axis].stride) for axis in group)
                what = f"dimensions {', '.join(map(str, group))} have strides {strides}"
                problems.append(mlir.diagnostic_at(op, f"'{op.name}': {what}, between which memory has other elements"))
    if problems:
        raise LoweringError(
            f"{module.context.aot_path}: dimensions that cannot become one",
            hint="memref.copy the buffer into one of memref.alloc, and collapse that",
            diagnostics=tuple(problems),
        )


def _are_apart(axes: Sequence[_Axis]) -> bool:
    """Whether a dimension's stride is not what the one inside of it takes; those of size 1 have no stride."""
    return any(
        None not in (outer.stride, length := _times(inner.stride, inner.size)) and outer.stride != length
        for outer, inner in pairwise(axis for axis in axes if axis.size != 1)
    )


def _axes(buffer: ir.Value) -> list[_Axis]:
    """The dimensions, by the type and by what the buffer is a cast or a view of."""
    own, op = _typed(buffer), mlir.owner(buffer)
    if isinstance(op, ir.Block) or op.name not in ("memref.cast", "memref.subview"):
        return own
    if not isinstance(op.operands[0].type, ir.MemRefType):
        return own
    given = _axes(op.operands[0])
    if op.name == "memref.subview":
        if len(given) != len(own):
            return own
        steps = map(_known, ir.DenseI64ArrayAttr(op.attributes[_STEPS]))
        given = [_Axis(None, _times(axis.stride, step)) for axis, step in zip(given, steps, strict=True)]
    return [one.joined(other) for one, other in zip(own, given, strict=True)]


def _typed(buffer: ir.Value) -> list[_Axis]:
    kind = ir.MemRefType(buffer.type)
    strides = kind.get_strides_and_offset()[0]
    return [_Axis(*map(_known, axis)) for axis in zip(kind.shape, strides, strict=True)]


def _known(number: int) -> int | None:
    return None if number == ir.ShapedType.get_dynamic_size() else number


def _times(number: int | None, other: int | None) -> int | None:
    return None if number is None or other is None else number * other
