"""Who touches which memory in launch-level host code, and what happens then.

In: a module at launch level and its Spaces. Out: the same module, where host code touches host memory only:
- an operation on device memory alone becomes a launch, or a read that waits;
- an operation that needs both sides, host memory in a kernel, host memory freed as device memory: errors, with place.

``memref.store %v, %argument[%i]`` becomes ``gpu.launch`` around it; ``memref.copy %host, %device`` is refused.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.errors import Diagnostic, LoweringError
from aot.lower.analysis import effects, views
from aot.lower.general import leftovers
from aot.lower.launchlevel import devicework
from aot.lower.launchlevel.memory import DEVICE, HOST, MIXED, SHARED, Spaces
from aot.lower.source import sourcelevel

PASS_ON = effects.HAND_ON | {
    "memref.dim",
    "memref.distinct_objects",
    "memref.extract_aligned_pointer_as_index",
    "memref.rank",
}
"""Operations that touch no memory through their memref operands, or may touch either side's."""

_FREES = {"memref.dealloc": (DEVICE, "gpu.dealloc"), "gpu.dealloc": (HOST, "memref.dealloc")}
"""Operation -> the memory that it cannot free, and the operation that can."""


ROOTS = frozenset({"memref.alloc", "memref.alloca", "memref.get_global", "gpu.alloc"})
"""Operations that make memory and can carry the mark of host memory themselves."""


def settle(module: mlir.Module) -> None:
    """Move the accesses that belong on the device."""
    spaces = Spaces.read(module)
    devicework.emit(module, spaces)
    spaces = Spaces.read(module)
    if any(_touches_device(op, spaces) for op in _host_ops(module)):
        marks = _mark_host(spaces)
        leftovers.to_device(module)
        _unmark(module, marks)


def _host_ops(module: mlir.Module) -> list[mlir.Operation]:
    functions = sourcelevel.host_functions(module)
    return [op for function in functions for op in mlir.walk(function) if not mlir.inside_kernel(op)]


def _arrays(op: mlir.Operation) -> list[mlir.Value]:
    return [value for value in op.operands if views.is_memref(value)]


def _accesses(op: mlir.Operation) -> bool:
    """Whether the operation touches the memory of its operands, on the spot."""
    if op.name in PASS_ON or op.name in views.VIEWS or op.name in _FREES:
        return False
    return not op.name.startswith(("scf.", "async.", "memref.alloca_scope"))


def _touches_device(op: mlir.Operation, spaces: Spaces) -> bool:
    return _accesses(op) and any(spaces.of(value) == DEVICE for value in _arrays(op))


def check(module: mlir.Module, spaces: Spaces) -> None:
    """LoweringError for accesses that cannot work."""
    faults = [
        mlir.diagnostic_at(op, fault)
        for function in sourcelevel.host_functions(module)
        for op in mlir.walk(function)
        if (fault := _kernel_fault(op, spaces) if mlir.inside_kernel(op) else _fault(op, spaces))
    ]
    if faults:
        raise LoweringError(
            f"{module.context.aot_path}: host code and memory that do not fit together",
            hint="in a function that launches by itself, memref.alloc is host memory; arguments and gpu.alloc are"
            " device memory; gpu.memcpy copies between them",
            diagnostics=_once(faults),
        )


def _once(faults: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(dict.fromkeys(faults))


def _fault(op: mlir.Operation, spaces: Spaces) -> str:
    kinds = {spaces.of(value) for value in _arrays(op)}
    if op.name.startswith("gpu.") and op.name not in sourcelevel.LAUNCH_OPS:
        return f"'{op.name}' in host code: it belongs into a kernel, or is not supported"
    if op.name == "gpu.alloc" and _is_device_space(op.results[0]):
        return f"'gpu.alloc' of '{op.results[0].type}': leave the memory space out, it is global memory anyway"
    if op.name == "gpu.memset" and HOST in kinds:
        return "'gpu.memset' of host memory: use linalg.fill"
    if op.name in _FREES:
        wrong, right = _FREES[op.name]
        return f"'{op.name}' of {wrong} memory: use {right}" if wrong in kinds else ""
    if op.name == "gpu.launch_func":
        return _launch_fault(op, spaces)
    if not _accesses(op):
        return ""
    if {HOST, DEVICE} <= kinds:
        return f"'{op.name}' uses host and device memory at once: copy with gpu.memcpy first"
    if MIXED in kinds:
        return f"'{op.name}' uses memory that is the host's on one path and the device's on another"
    return ""


def _launch_fault(op: mlir.Operation, spaces: Spaces) -> str:
    return next((fault for value in _arrays(op) if (fault := _passing_fault(value, spaces))), "")


def _passing_fault(value: mlir.Value, spaces: Spaces) -> str:
    """What is wrong with a kernel's use of the memory; constants exist on both sides."""
    if spaces.of(value) == MIXED:
        return "a kernel gets memory that is the host's on one path and the device's on another"
    if spaces.of(value) != HOST or views.is_constant(value):
        return ""
    origin = views.global_of(value)
    if origin is None:
        return _HOST_IN_KERNEL
    return "" if _is_device_space(value) else _GLOBAL_IN_KERNEL.format(name=mlir.symbol_name(origin))


def _is_device_space(value: mlir.Value) -> bool:
    """Whether the type says that the memory is the device's, such as a workgroup's."""
    space = ir.MemRefType(value.type).memory_space if isinstance(value.type, ir.MemRefType) else None
    return space is not None


_GLOBAL_IN_KERNEL = (
    "a kernel uses '@{name}', which is not constant: host and device would each have one of their own; use gpu.alloc"
)
_HOST_IN_KERNEL = (
    "a kernel gets host memory: copy it to a gpu.alloc with gpu.memcpy, or let the device reach it with"
    " gpu.host_register"
)


def _kernel_fault(op: mlir.Operation, spaces: Spaces) -> str:
    """A value from outside a gpu.launch region that cannot be used inside."""
    for value in op.operands:
        if _is_outer(value, op) and (isinstance(value.type, ir.UnrankedMemRefType) or _is_host_only(value.type)):
            return f"a kernel cannot get a value of type '{value.type}'"
    if op.name in ("memref.dim", "memref.rank"):
        return ""
    outer = (value for value in _arrays(op) if _is_outer(value, op))
    return next((fault for value in outer if (fault := _passing_fault(value, spaces))), "")


def _is_host_only(kind: ir.Type) -> bool:
    """Tokens and functions mean something to the host only."""
    return isinstance(kind, ir.FunctionType) or str(kind).startswith(("!async.", "!gpu.async."))


def _is_outer(value: mlir.Value, user: mlir.Operation) -> bool:
    """Whether the value is made outside the launch that ``user`` is in."""
    launch = next((op for op in mlir.parents(user) if op.name == "gpu.launch"), None)
    made_by = mlir.owner(value)
    inside = made_by.owner.operation if isinstance(made_by, ir.Block) else made_by
    return launch is not None and inside != launch and launch not in mlir.parents(inside)


def _mark_host(spaces: Spaces) -> list[mlir.Operation]:
    """Mark host memory for ``leftovers``, which takes everything else for device memory."""
    marks: list[mlir.Operation] = []
    for value in list(spaces.origins):
        made_by = mlir.owner(value)
        if spaces.of(value) not in (HOST, SHARED) or not views.is_memref(value):
            continue
        if isinstance(made_by, ir.Block):
            marks.append(_mark_value(value, ir.InsertionPoint.at_block_begin(made_by)))
        elif made_by.name in ROOTS:
            made_by.attributes[views.HOST_MARK] = ir.UnitAttr.get()
        elif made_by.name not in views.VIEWS:
            marks.append(_mark_value(value, ir.InsertionPoint.after(made_by)))
    return marks


def _mark_value(value: mlir.Value, place: ir.InsertionPoint) -> mlir.Operation:
    """An identity that carries the mark, for values that no operation of their own makes."""
    with place, ir.Location.unknown():
        mark = ir.Operation.create(
            "builtin.unrealized_conversion_cast",
            results=[value.type],
            operands=[value],
            attributes={views.HOST_MARK: ir.UnitAttr.get()},
        )
    value.replace_all_uses_except(mark.results[0], mark)
    return mark


def _unmark(module: mlir.Module, marks: list[mlir.Operation]) -> None:
    for mark in marks:
        mark.results[0].replace_all_uses_with(mark.operands[0])
        mark.erase()
    for op in mlir.walk(module):
        if views.HOST_MARK in op.attributes:
            del op.attributes[views.HOST_MARK]
