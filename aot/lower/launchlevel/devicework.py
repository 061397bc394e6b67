"""Array operations on device memory, written in functions that launch by themselves.

In: launch-level functions and the memory their values lie in. Out: the same functions, where a linalg operation or
a parallel loop that touches device memory only has become a launch, and a copy inside device memory a gpu.memcpy.
A gpu.memset or gpu.memcpy that the driver has no call for (strided, or of 8 or 64 bits) is a kernel's work too.
What touches host memory stays as it is.

``linalg.fill ins(%v) outs(%argument)`` becomes a ``gpu.launch`` with one thread per element.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import views
from aot.lower.dialects import linalg
from aot.lower.general import launchnest
from aot.lower.launches import grid
from aot.lower.launchlevel import asyncform
from aot.lower.launchlevel.memory import DEVICE, HOST, SHARED, Spaces
from aot.lower.source import sourcelevel

BULK = frozenset({"gpu.memset", "gpu.memcpy"})
"""Operations on whole arrays for which the driver has calls, if the arrays are contiguous."""
SET_BITS = (16, 32)
"""Widths of elements that the runtime's memset writes."""

PARALLEL = frozenset({"scf.parallel", "scf.forall"})


def emit(module: mlir.Module, spaces: Spaces) -> None:
    """Make the launches and copies."""
    for op in _host_ops(module):
        if op.name in BULK and not _has_driver_call(op):
            _as_array_operation(op, spaces)
    spaces = Spaces.read(module)
    for op in _host_ops(module):
        if op.name == "memref.copy" and _on_device(op, spaces):
            source, target = op.operands
            with ir.InsertionPoint(op), op.location:
                if _is_plain_copy(op):
                    ir.Operation.create("gpu.memcpy", operands=[target, source])
                else:
                    linalg.copy(source, target)
            op.erase()
    if not any(_is_work(op) and _on_device(op, spaces) for op in _host_ops(module)):
        return
    # Host operations become parallel loops too; on the host those run one after the other.
    passes = ["func.func(scf-forall-to-parallel)", "func.func(convert-linalg-to-parallel-loops)"]
    mlir.run_passes(module, passes, "array operations in host code")
    spaces = Spaces.read(module)
    for op in [each for each in _host_ops(module) if _is_outermost(each) and _on_device(each, spaces)]:
        _launch(op)


def _has_driver_call(op: mlir.Operation) -> bool:
    arrays = [value for value in op.operands if views.is_memref(value)]
    if not all(_is_contiguous(value) for value in arrays):
        return False
    if op.name == "gpu.memcpy":
        return True
    element = ir.MemRefType(arrays[0].type).element_type
    return isinstance(element, ir.IntegerType | ir.FloatType) and element.width in SET_BITS


def _as_array_operation(op: mlir.Operation, spaces: Spaces) -> None:
    """A fill or copy by a kernel, between a wait for the tokens and a new token."""
    tokens = [value for value in op.operands if asyncform.is_token(value)]
    target, source = (value for value in op.operands if not asyncform.is_token(value))
    if HOST in (spaces.of(target), spaces.of(source)):
        raise LoweringError(
            f"{op.context.aot_path}: gpu.memcpy between host and device of memory that is not contiguous",
            hint="copy the view to a contiguous memref.alloc first",
            diagnostics=(mlir.diagnostic_at(op, "one of its arrays has a strided layout"),),
        )
    with ir.InsertionPoint(op), op.location:
        if tokens:
            ir.Operation.create("gpu.wait", operands=tokens)
        if op.name == "gpu.memset":
            linalg.fill(source, target)
        else:
            linalg.copy(source, target)
        for result in op.results:
            after = ir.Operation.create("gpu.wait", results=[result.type]).results[0]
            result.replace_all_uses_with(after)
    op.erase()


def _launch(nest: mlir.Operation) -> None:
    function = next(op for op in mlir.parents(nest) if op.name == "func.func")
    before = {op for op in mlir.walk(function) if op.name == "gpu.launch"}
    launchnest.emit_nest(nest)
    for op in mlir.walk(function):
        if op.name == "gpu.launch" and op not in before:
            grid.linearise(op)


def _host_ops(module: mlir.Module) -> list[mlir.Operation]:
    functions = sourcelevel.host_functions(module)
    return [op for function in functions for op in mlir.walk(function) if not mlir.inside_kernel(op)]


def _is_work(op: mlir.Operation) -> bool:
    return op.name in PARALLEL or (op.name.startswith("linalg.") and len(op.regions) > 0)


def _is_outermost(op: mlir.Operation) -> bool:
    """A parallel loop without results (a reduction), in no other one."""
    if op.name != "scf.parallel" or len(op.results):
        return False
    return all(each.name not in PARALLEL for each in mlir.parents(op))


def _on_device(op: mlir.Operation, spaces: Spaces) -> bool:
    """Whether all memory from outside that the operation touches is the device's; with at least one such."""
    found = {spaces.of(value) for each in mlir.walk(op) for value in each.operands if _is_outer(value, op)}
    return DEVICE in found and found <= {DEVICE, SHARED}


def _is_outer(value: mlir.Value, op: mlir.Operation) -> bool:
    if not views.is_memref(value):
        return False
    made_by = mlir.owner(value)
    inside = made_by.owner.operation if isinstance(made_by, ir.Block) else made_by
    return inside != op and op not in mlir.parents(inside)


def _is_plain_copy(op: mlir.Operation) -> bool:
    return all(_is_contiguous(value) for value in op.operands)


def _is_contiguous(value: mlir.Value) -> bool:
    """Whether the type promises row-major memory without gaps."""
    if not isinstance(value.type, ir.MemRefType):
        return False
    kind = ir.MemRefType(value.type)
    return bool(kind == ir.MemRefType.get(kind.shape, kind.element_type, memory_space=kind.memory_space))
