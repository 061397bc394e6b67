"""What a source is: host functions at tensor or launch level, kernels without host code, or nothing of use.

In: a parsed module. Out: Parts, at most two modules: the tensor-level functions, and everything else
(launch-level functions, gpu.modules, ready binaries). A function belongs to the launch level when it, or a
function that it calls, allocates, copies or launches by itself.

>>> parts = split(prepare.run(module))                                    # doctest: +SKIP
>>> parts.launch is None        # linalg on tensors only
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.errors import Diagnostic, LoweringError, UnknownArch
from aot.lower.analysis import opwalk, views
from aot.model import LAUNCH, TENSOR
from aot.targets import arch

LAUNCH_OPS = frozenset(
    {
        "gpu.launch",
        "gpu.launch_func",
        "gpu.alloc",
        "gpu.dealloc",
        "gpu.memcpy",
        "gpu.memset",
        "gpu.wait",
        "gpu.host_register",
        "gpu.host_unregister",
        "gpu.set_default_device",
        "nvgpu.tma.create.descriptor",
    }
)
"""Operations with which host code manages the device by itself."""

KERNEL_MARKS = ("gpu.kernel", "nvvm.kernel")
"""Attributes of an ``llvm.func`` or ``gpu.func`` that make it a kernel."""

_RETURNS_NOTHING = "!llvm.func<void "

DEVICE_CONTAINERS = ("gpu.module", "gpu.binary")

CALLS = {"func.call": "callee", "func.constant": "value"}
"""Operations that refer to a function, and their attribute that says to which."""

DEFAULT_CHIP = "sm_50"
"""What ``#nvvm.target`` without a chip means: nobody asked for it."""


@dataclass(frozen=True)
class Parts:
    """A source, taken apart by level."""

    tensor: mlir.Module | None
    """Tensor-level functions; None when there are none."""
    launch: mlir.Module | None
    """Launch-level functions, gpu.modules and gpu.binary ops; None when there are none."""


def public_functions(module: mlir.Module) -> list[mlir.Operation]:
    """Host functions that the package exports, in the order of the source."""
    return [op for op in host_functions(module) if not is_private(op)]


def host_functions(module: mlir.Module) -> list[mlir.Operation]:
    """All ``func.func`` with a body that host code may run."""
    return [
        op for op in top(module) if op.name == "func.func" and has_body(op) and views.DEVICE_MARK not in op.attributes
    ]


def has_body(function: mlir.Operation) -> bool:
    """False for declarations."""
    return len(function.regions[0].blocks) > 0


def mark_device_functions(module: mlir.Module) -> None:
    """Mark functions that only kernels call: outlining copies them, and nothing else may touch them."""
    functions = {mlir.symbol_name(op): op for op in top(module) if op.name == "func.func" and has_body(op)}
    on_host = [name for name, op in functions.items() if not is_private(op)]
    found: set[str] = set()
    while on_host:
        name = on_host.pop()
        if name in functions and name not in found:
            found.add(name)
            on_host += callees(functions[name], inside_kernels=False)
    for name, op in functions.items():
        if name not in found:
            op.attributes[views.DEVICE_MARK] = ir.UnitAttr.get()


def is_private(function: mlir.Operation) -> bool:
    """Whether the symbol is visible in its module only."""
    attributes = function.attributes
    return "sym_visibility" in attributes and ir.StringAttr(attributes["sym_visibility"]).value != "public"


def is_kernel(function: mlir.Operation) -> bool:
    """Whether the function is launched, and not called by device code. What returns a value cannot be launched."""
    if not any(mark in function.attributes for mark in KERNEL_MARKS):
        return False
    return function.name != "llvm.func" or str(function.attributes["function_type"]).startswith(_RETURNS_NOTHING)


def places(module: mlir.Module) -> dict[str, Diagnostic]:
    """Diagnostics without a message at all functions, by their symbols; of two of one symbol at the second."""
    functions = opwalk.named(module, "func.func", "gpu.func", "llvm.func")
    return {mlir.symbol_name(op): mlir.diagnostic_at(op, "") for op in functions}


def callees(function: mlir.Operation, *, inside_kernels: bool = True) -> set[str]:
    """Symbols that the function's own code refers to by ``func.call`` or ``func.constant``."""
    return {
        ir.FlatSymbolRefAttr(op.attributes[CALLS[op.name]]).value
        for op in opwalk.named(function, *CALLS)
        if inside_kernels or not mlir.inside_kernel(op)
    }


def reachable(function: mlir.Operation, module: mlir.Module) -> list[mlir.Operation]:
    """The function and all functions of the module that it calls, directly or not."""
    by_name = {mlir.symbol_name(op): op for op in top(module) if op.name == "func.func"}
    found = {mlir.symbol_name(function): function}
    todo = [function]
    while todo:
        for name in sorted(callees(todo.pop()) - found.keys()):
            if name in by_name:
                found[name] = by_name[name]
                todo.append(by_name[name])
    return list(found.values())


def classify(module: mlir.Module) -> dict[str, str]:
    """Level of each public function by its name."""
    return {mlir.symbol_name(op): _level(op, module) for op in public_functions(module)}


def split(module: mlir.Module) -> Parts:
    """Give each level a module of its own."""
    levels = classify(module)
    has_device_code = bool(device_containers(module))
    if TENSOR not in levels.values():
        return Parts(None, module)
    if LAUNCH not in levels.values() and not has_device_code:
        return Parts(module, None)
    launch = module.operation.clone()
    _keep(launch, {name for name, level in levels.items() if level == LAUNCH}, device=True)
    _keep(module, {name for name, level in levels.items() if level == TENSOR}, device=False)
    return Parts(module, launch)


def only(parts: Parts, names: Sequence[str]) -> Parts:
    """Some tensor-level functions; everything when none are named."""
    if not names or parts.tensor is None:
        return parts
    _keep(parts.tensor, set(names), device=False)
    return Parts(parts.tensor, None)


def entries(module: mlir.Module) -> list[mlir.Operation]:
    """What could be compiled without the rest: public functions, and kernels that nothing launches."""
    launched = {str(op.attributes["kernel"]) for op in opwalk.named(module, "gpu.launch_func")}
    kernels = [
        op
        for container in device_containers(module)
        for op in opwalk.named(container, "gpu.func", "llvm.func")
        if is_kernel(op) and f"@{mlir.symbol_name(container)}::@{mlir.symbol_name(op)}" not in launched
    ]
    return [*public_functions(module), *kernels]


def keep(module: mlir.Module, names: Sequence[str]) -> None:
    """Reduce a source to some of its entries and what they use."""
    _keep(module, set(names), device=True)
    for op in entries(module):
        if op.name != "func.func" and mlir.symbol_name(op) not in names:
            op.erase()


def targets(module: mlir.Module) -> tuple[str, ...]:
    """Chips that the source's own gpu.modules name, sorted; the default chip counts as none.

    LoweringError for a chip that no GPU has, or that is too old, at the gpu.module that names it.
    """
    named = [
        (op, _chip(target))
        for op in device_containers(module)
        if "targets" in op.attributes
        for target in ir.ArrayAttr(op.attributes["targets"])
    ]
    chosen = [(op, chip) for op, chip in named if chip not in (DEFAULT_CHIP, "")]
    if wrong := tuple(filter(None, (_unknown_chip(op, chip) for op, chip in chosen))):
        raise LoweringError(f"{module.context.aot_path}: targets that cannot be built for", diagnostics=wrong)
    return tuple(sorted({chip for _, chip in chosen}))


def _unknown_chip(op: mlir.Operation, chip: str) -> Diagnostic | None:
    try:
        arch.target(chip)
    except UnknownArch as error:
        return mlir.diagnostic_at(op, f'#nvvm.target<chip = "{chip}">: {error.message}')
    return None


def strip_targets(module: mlir.Module) -> None:
    """Remove the targets of gpu.modules: what is built for is decided for the whole source."""
    for op in device_containers(module):
        if op.name == "gpu.module" and "targets" in op.attributes:
            del op.attributes["targets"]


def _chip(target: ir.Attribute) -> str:
    """Chip of an ``#nvvm.target``; the bindings know this attribute as text only."""
    text = str(target)
    if not text.startswith("#nvvm.target"):
        return ""
    chip = re.search(r'chip = "([^"]*)"', text)
    return chip.group(1) if chip else DEFAULT_CHIP


def top(module: mlir.Module) -> list[mlir.Operation]:
    """Operations that stand directly in a module or gpu.module."""
    return [op.operation for op in module.operation.regions[0].blocks[0].operations]


def device_containers(module: mlir.Module) -> list[mlir.Operation]:
    """Its gpu.module and gpu.binary ops."""
    return [op for op in top(module) if op.name in DEVICE_CONTAINERS]


def _level(function: mlir.Operation, module: mlir.Module) -> str:
    for each in reachable(function, module):
        for op in mlir.walk(each):
            if (op.name in LAUNCH_OPS or op.name.startswith("async.")) and not mlir.inside_kernel(op):
                return LAUNCH
    return TENSOR


def _keep(module: mlir.Module, names: set[str], *, device: bool) -> None:
    """Reduce a module to some public functions and what they use."""
    for op in public_functions(module):
        if mlir.symbol_name(op) not in names:
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    if not device:
        for op in device_containers(module):
            op.erase()
    drop_unused(module)


def drop_unused(module: mlir.Module) -> None:
    """Erase functions that no public function uses."""
    functions = [op for op in top(module) if op.name == "func.func"]
    used = {mlir.symbol_name(each) for function in public_functions(module) for each in reachable(function, module)}
    for op in functions:
        if mlir.symbol_name(op) not in used:
            op.erase()
