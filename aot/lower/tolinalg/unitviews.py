"""Views of buffers that leave out dimensions of size 1 say which, as unitslices does it for tensors.

In: a module, before any pass looks at its views. Out: the same. MLIR looks for the dimensions that a view leaves out
by the strides of the viewed buffer. Steps multiply strides, and strides that are equal or unknown tell nothing: it
takes others than the type does, or finds none and ends the process. Where that may happen the view keeps all its
dimensions, and a cast leaves them out.

``memref.subview %x[0, 1, 0] [1, 1, 4] [2, 3, 2] : … to memref<1x4xf32, …>``  becomes  one to ``memref<1x1x4xf32, …>``
and ``memref.reinterpret_cast`` to ``memref<1x4xf32, …>``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.bufferization import expandshape
from aot.lower.checks.slicecheck import mixed
from aot.lower.tolinalg.unitslices import left_out

_OFFSETS, _SIZES, _STEPS = "static_offsets", "static_sizes", "static_strides"


def settle(module: mlir.Module) -> None:
    """Rewrite such views of a module, in kernels, too."""
    for op in opwalk.named(module, "memref.subview"):
        gone = left_out(_static(op, _SIZES), ir.MemRefType(op.results[0].type).shape)
        if gone and _is_ambiguous(op, gone):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_narrowed(op, _whole(op), gone))
            op.erase()


def _is_ambiguous(op: mlir.Operation, gone: frozenset[int]) -> bool:
    """Whether MLIR may think that other dimensions are gone.

    Of dimensions of size 1 and of one stride it takes the first; a size that is not known may turn out to be 1.
    """
    strides, sizes = ir.MemRefType(op.operands[0].type).get_strides_and_offset()[0], _static(op, _SIZES)
    unknown = ir.ShapedType.get_dynamic_size()
    kept = [axis for axis, size in enumerate(sizes) if size in (1, unknown) and axis not in gone]
    if any(step != 1 for step in _static(op, _STEPS)):
        return bool(kept)
    return any(axis < other and strides[axis] == strides[other] for axis in kept for other in gone)


def _whole(op: mlir.Operation) -> ir.Value:
    """The view with all its dimensions."""
    given, kind = ir.MemRefType(op.operands[0].type), ir.MemRefType(op.results[0].type)
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    strides = [
        unknown if unknown in (stride, step) else stride * step
        for stride, step in zip(given.get_strides_and_offset()[0], _static(op, _STEPS), strict=True)
    ]
    layout = ir.StridedLayoutAttr.get(kind.get_strides_and_offset()[1], strides)
    whole = ir.MemRefType.get(_static(op, _SIZES), kind.element_type, layout, kind.memory_space)
    static = [_static(op, name) for name in (_OFFSETS, _SIZES, _STEPS)]
    return memref.SubViewOp(whole, op.operands[0], *(_dynamic(op, part) for part in (1, 2, 3)), *static).result


def _narrowed(op: mlir.Operation, whole: ir.Value, gone: frozenset[int]) -> ir.Value:
    metadata = memref.ExtractStridedMetadataOp(whole)
    sizes = mixed(_static(op, _SIZES), _dynamic(op, 2))
    axes = [axis for axis in range(len(sizes)) if axis not in gone]
    place = expandshape.Place(
        metadata.offset, [sizes[axis] for axis in axes], [metadata.strides[axis] for axis in axes]
    )
    return expandshape.recast(whole, ir.MemRefType(op.results[0].type), place)


def _static(op: mlir.Operation, name: str) -> Sequence[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def _dynamic(op: mlir.Operation, part: int) -> list[ir.Value]:
    """Offsets (1), sizes (2) or steps (3) that are values."""
    counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    return list(op.operands)[sum(counts[:part]) : sum(counts[: part + 1])]
