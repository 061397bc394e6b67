"""Array operations on device memory, written in functions that launch by themselves.

In: launch-level functions and the memory their values lie in. Out: the same functions, where a linalg operation or
a parallel loop that touches device memory only has become a launch, and a copy inside device memory a gpu.memcpy.
What touches host memory stays as it is.

``linalg.fill ins(%v) outs(%argument)`` becomes a ``gpu.launch`` with one thread per element.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import linalg

from aot import mlir
from aot.lower import grid, launches, level, views
from aot.lower.memory import DEVICE, SHARED, Spaces

PARALLEL = frozenset({"scf.parallel", "scf.forall"})


def emit(module: mlir.Module, spaces: Spaces) -> None:
    """Make the launches and copies."""
    for op in _host_ops(module):
        if op.name == "memref.copy" and _on_device(op, spaces):
            source, target = op.operands
            with ir.InsertionPoint(op), op.location:
                if _is_plain_copy(op):
                    ir.Operation.create("gpu.memcpy", operands=[target, source])
                else:
                    linalg.copy(source, outs=[target])
            op.erase()
    if not any(_is_work(op) and _on_device(op, spaces) for op in _host_ops(module)):
        return
    # Host operations become parallel loops too; on the host those run one after the other.
    passes = ["func.func(scf-forall-to-parallel)", "func.func(convert-linalg-to-parallel-loops)"]
    mlir.run_passes(module, passes, "array operations in host code")
    spaces = Spaces.read(module)
    for op in [each for each in _host_ops(module) if _is_outermost(each) and _on_device(each, spaces)]:
        _launch(op)


def _launch(nest: mlir.Operation) -> None:
    function = next(op for op in mlir.parents(nest) if op.name == "func.func")
    before = {op for op in mlir.walk(function) if op.name == "gpu.launch"}
    launches.emit_nest(nest)
    for op in mlir.walk(function):
        if op.name == "gpu.launch" and op not in before:
            grid.linearise(op)


def _host_ops(module: mlir.Module) -> list[mlir.Operation]:
    functions = level.host_functions(module)
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
    """Whether both sides are contiguous."""
    kinds = [ir.MemRefType(value.type) for value in op.operands if isinstance(value.type, ir.MemRefType)]
    return len(kinds) == 2 and all(
        kind == ir.MemRefType.get(kind.shape, kind.element_type, memory_space=kind.memory_space) for kind in kinds
    )
