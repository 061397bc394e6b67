"""Buffers of tensor-level host code become device memory of the call.

In: functions with ``memref.alloc``, ``alloca``, ``dealloc`` and ``copy``. Out: the same with memory from
``@aot_rt_alloc``, given back by ``@aot_rt_free``; what is left of ``memref.alloca`` is marked as host memory.

``%b = memref.alloc(%n) : memref<?xf32>`` becomes ``%m = call @aot_rt_alloc(4 * %n)``, ``%b = memref.view %m``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, memref

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import opwalk, views
from aot.lower.checks import reshapecheck
from aot.lower.dialects import linalg
from aot.lower.hostmodule import rtcalls


def copies_to_linalg(module: ir.Module) -> None:
    """``memref.copy`` would be done by the host; as linalg it becomes a launch like any other work."""
    for op in _host_ops(module, "memref.copy"):
        source, target = op.operands
        if isinstance(source.type, ir.MemRefType) and isinstance(target.type, ir.MemRefType):
            with ir.InsertionPoint(op), op.location:
                linalg.copy(source, target)
            op.erase()


def expand_reallocs(module: ir.Module) -> None:
    """``memref.realloc`` as allocation, copy and deallocation."""
    if "memref.realloc" in mlir.op_names(module):
        mlir.run_passes(module, ["expand-realloc"], "lowering memref.realloc")


def expand_reshapes(module: ir.Module) -> None:
    """``memref.reshape`` reads its extents from memory when it is lowered; here each extent is a load of its own."""
    for op in _host_ops(module, "memref.reshape"):
        kind = op.results[0].type
        if isinstance(kind, ir.MemRefType):
            with ir.InsertionPoint(op), op.location:
                view = _reshaped(op, kind)
            op.results[0].replace_all_uses_with(view)
            op.erase()


def _reshaped(op: ir.Operation, kind: ir.MemRefType) -> ir.Value:
    source, shape = op.operands
    extents: list[ir.Value] = []
    dynamic = ir.ShapedType.get_dynamic_size()
    for axis, static in enumerate(kind.shape):
        extent = rtcalls.index(static)
        if static == dynamic:
            extent = memref.LoadOp(shape, [rtcalls.index(axis)]).result
            if not isinstance(extent.type, ir.IndexType):
                extent = arith.IndexCastOp(ir.IndexType.get(), extent).result
        extents.append(extent)
    reshapecheck.same_size(op, extents)
    strides = [rtcalls.index(1)]
    for extent in reversed(extents[1:]):
        strides.insert(0, arith.MulIOp(strides[0], extent).result)
    types, _ = kind.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    return memref.ReinterpretCastOp(
        kind,
        source,
        [],
        [extent for extent, static in zip(extents, kind.shape, strict=True) if static == dynamic],
        [stride for stride, static in zip(strides, types, strict=False) if static == unknown],
        [0],
        list(kind.shape),
        list(types),
    ).result


def to_device(module: ir.Module) -> None:
    """Replace allocations and deallocations of host code; for when launches exist already."""
    for op in _host_ops(module, "memref.alloca"):
        if views.HOST_MARK not in op.attributes:
            end = _last_of_block(op)
            buffer = _device_buffer(op)
            if end is not None:
                with ir.InsertionPoint(end), end.location:
                    rtcalls.free(buffer)
    for op in _host_ops(module, "memref.alloc"):
        _device_buffer(op)
    for op in _host_ops(module, "memref.dealloc"):
        if isinstance(op.operands[0].type, ir.MemRefType):
            with ir.InsertionPoint(op), op.location:
                rtcalls.free(op.operands[0])
        # The runtime frees what nobody gave back when the call ends.
        op.erase()


def _host_ops(module: ir.Module, name: str) -> list[ir.Operation]:
    return [op for op in opwalk.named(module, name) if not mlir.inside_kernel(op)]


def _device_buffer(op: ir.Operation) -> ir.Value:
    kind = ir.MemRefType(op.results[0].type)
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    try:
        with ir.InsertionPoint(op), op.location:
            buffer = rtcalls.device_buffer(kind, list(op.operands)[: sizes[0]])
    except LoweringError as problem:
        raise LoweringError(
            "a buffer that cannot be device memory", diagnostics=(mlir.diagnostic_at(op, problem.message),)
        ) from None
    op.results[0].replace_all_uses_with(buffer)
    op.erase()
    return buffer


def _last_of_block(alloca: ir.Operation) -> ir.Operation | None:
    """The end of the buffer's scope; None when its memory may be used after its block."""
    end = list(alloca.block.operations)[-1].operation
    outlives = any(views.is_memref(value) and views.root(value) == alloca.results[0] for value in end.operands)
    return None if outlives or end.name.startswith("cf.") else end
