"""What a source is: host functions at tensor or launch level, kernels without host code, or nothing of use.

In: a parsed module. Out: Parts, at most two modules: the tensor-level functions, and everything else
(launch-level functions, gpu.modules, ready binaries). A function belongs to the launch level when it, or a
function that it calls, allocates, copies or launches by itself.

>>> parts = split(prepare(module))                                      # doctest: +SKIP
>>> parts.launch is None        # linalg on tensors only
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from mlir import ir

from aot import mlir
from aot.errors import LoweringError, SourceError
from aot.lower import frontend
from aot.model import LAUNCH, TENSOR

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

DEVICE_CONTAINERS = ("gpu.module", "gpu.binary")

CALLS = {"func.call": "callee", "func.constant": "value"}
"""Operations that refer to a function, and their attribute that says to which."""

WRAPPER = "kernels"
"""Name of the gpu.module put around kernels that stand in no gpu.module."""

DEFAULT_CHIP = "sm_50"
"""What ``#nvvm.target`` without a chip means: nobody asked for it."""


@dataclass(frozen=True)
class Parts:
    """A source, taken apart by level."""

    tensor: mlir.Module | None
    """Tensor-level functions; None when there are none."""
    launch: mlir.Module | None
    """Launch-level functions, gpu.modules and gpu.binary ops; None when there are none."""


def prepare(module: mlir.Module) -> mlir.Module:
    """Run the source's transform scripts, wrap bare kernels, inline, and check that there is something to build.

    No canonicalization: it would change hand-written kernels (constant predicates folded into inline assembly,
    loops unrolled around asynchronous copies).
    """
    frontend.run_scripts(module)
    _unnest(module)
    _wrap_bare_kernels(module)
    mlir.run_passes(module, ["inline{default-pipeline=}"], "inlining")
    _refuse_recursion(module)
    _separate_called_functions(module)
    if not public_functions(module) and not _has_kernels(module):
        raise SourceError(
            f"{module.context.aot_path}: no kernels: no public function with a body, and no kernel in a gpu.module",
            hint="functions marked 'private' are not part of a package; remove the word to export one",
        )
    return module


def public_functions(module: mlir.Module) -> list[mlir.Operation]:
    """Host functions that the package exports, in the order of the source."""
    return [op for op in host_functions(module) if not is_private(op)]


def host_functions(module: mlir.Module) -> list[mlir.Operation]:
    """All ``func.func`` of the host with a body."""
    return [op for op in _top(module) if op.name == "func.func" and has_body(op)]


def has_body(function: mlir.Operation) -> bool:
    """False for declarations."""
    return len(function.regions[0].blocks) > 0


def is_private(function: mlir.Operation) -> bool:
    """Whether the symbol is visible in its module only."""
    attributes = function.attributes
    return "sym_visibility" in attributes and ir.StringAttr(attributes["sym_visibility"]).value != "public"


def is_kernel(function: mlir.Operation) -> bool:
    """Whether the function is launched, and not called by device code. What returns a value cannot be launched."""
    marked = any(mark in function.attributes for mark in KERNEL_MARKS)
    return marked and not any(op.name == "llvm.return" and len(op.operands) for op in mlir.walk(function))


def callees(function: mlir.Operation) -> set[str]:
    """Symbols that the function's own code refers to by ``func.call`` or ``func.constant``."""
    return {ir.FlatSymbolRefAttr(op.attributes[CALLS[op.name]]).value for op in mlir.walk(function) if op.name in CALLS}


def reachable(function: mlir.Operation, module: mlir.Module) -> list[mlir.Operation]:
    """The function and all functions of the module that it calls, directly or not."""
    by_name = {mlir.symbol_name(op): op for op in _top(module) if op.name == "func.func"}
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
    has_device_code = bool(_device_containers(module))
    if TENSOR not in levels.values():
        return Parts(None, module)
    if LAUNCH not in levels.values() and not has_device_code:
        return Parts(module, None)
    launch = module.operation.clone()
    _keep(launch, {name for name, level in levels.items() if level == LAUNCH}, device=True)
    _keep(module, {name for name, level in levels.items() if level == TENSOR}, device=False)
    return Parts(module, launch)


def targets(module: mlir.Module) -> tuple[str, ...]:
    """Chips that the source's own gpu.modules name, sorted; the default chip counts as none."""
    found: set[str] = set()
    for op in _device_containers(module):
        if "targets" in op.attributes:
            found.update(_chip(target) for target in ir.ArrayAttr(op.attributes["targets"]))
    return tuple(sorted(found - {DEFAULT_CHIP, ""}))


def strip_targets(module: mlir.Module) -> None:
    """Remove the targets of gpu.modules: what is built for is decided for the whole source."""
    for op in _device_containers(module):
        if op.name == "gpu.module" and "targets" in op.attributes:
            del op.attributes["targets"]


def _chip(target: ir.Attribute) -> str:
    """Chip of an ``#nvvm.target``; the bindings know this attribute as text only."""
    text = str(target)
    if not text.startswith("#nvvm.target"):
        return ""
    chip = re.search(r'chip = "([^"]*)"', text)
    return chip.group(1) if chip else DEFAULT_CHIP


def _top(module: mlir.Module) -> list[mlir.Operation]:
    return [op.operation for op in module.operation.regions[0].blocks[0].operations]


def _device_containers(module: mlir.Module) -> list[mlir.Operation]:
    return [op for op in _top(module) if op.name in DEVICE_CONTAINERS]


def _has_kernels(module: mlir.Module) -> bool:
    """Ready binaries have kernels too, but without a host function nobody knows which."""
    return any(is_kernel(op) for container in _device_containers(module) for op in mlir.walk(container))


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
        for op in _device_containers(module):
            op.erase()
    drop_unused(module)


def drop_unused(module: mlir.Module) -> None:
    """Erase functions that no public function uses."""
    functions = [op for op in _top(module) if op.name == "func.func"]
    used = {mlir.symbol_name(each) for function in public_functions(module) for each in reachable(function, module)}
    for op in functions:
        if mlir.symbol_name(op) not in used:
            op.erase()


def _unnest(module: mlir.Module) -> None:
    """Take operations out of modules inside the module: a source is one list of symbols."""
    body = module.operation.regions[0].blocks[0]
    for op in _top(module):
        if op.name != "builtin.module":
            continue
        names = {mlir.symbol_name(each) for each in _top(module)} - {""}
        for inner in _top(op):
            if mlir.symbol_name(inner) in names:
                raise LoweringError(
                    "two modules inside the source define the same symbol",
                    diagnostics=(mlir.diagnostic_at(inner, f"'@{mlir.symbol_name(inner)}' is defined twice"),),
                )
            inner.move_before(body.operations[0].operation)
        op.erase()


def _wrap_bare_kernels(module: mlir.Module) -> None:
    """Put kernels written as ``llvm.func`` at the top of a module, with all that they use, in a gpu.module."""
    bare = [op for op in _top(module) if op.name == "llvm.func" and is_kernel(op)]
    if not bare:
        return
    hosts = host_functions(module)
    if hosts:
        raise LoweringError(
            "kernels outside a gpu.module, in a source that has host functions too",
            hint="put the kernels in a gpu.module; host functions launch them with gpu.launch_func",
            diagnostics=(mlir.diagnostic_at(bare[0], f"kernel '@{mlir.symbol_name(bare[0])}' stands here"),),
        )
    inside = [op for op in _top(module) if op.name not in DEVICE_CONTAINERS]
    body = module.operation.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(body), bare[0].location:
        wrapper = ir.Operation.create("gpu.module", attributes={"sym_name": ir.StringAttr.get(WRAPPER)}, regions=1)
        block = wrapper.regions[0].blocks.append()
    for op in inside:
        block.append(op)
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()


def _separate_called_functions(module: mlir.Module) -> None:
    """Give calls that inlining left a private copy of a public function: the exported one changes its signature."""
    called = {name for function in host_functions(module) for name in callees(function)}
    taken = {mlir.symbol_name(op) for op in _top(module)}
    for function in public_functions(module):
        name = mlir.symbol_name(function)
        if name not in called:
            continue
        inner = next(each for n in count(1) if (each := f"{name}_inner{n}") not in taken)
        taken.add(inner)
        copy = function.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(inner)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        module.operation.regions[0].blocks[0].append(copy)
        for op in mlir.walk(module):
            if op.name in CALLS and ir.FlatSymbolRefAttr(op.attributes[CALLS[op.name]]).value == name:
                op.attributes[CALLS[op.name]] = ir.FlatSymbolRefAttr.get(inner)


def _refuse_recursion(module: mlir.Module) -> None:
    calls = {mlir.symbol_name(op): callees(op) for op in host_functions(module)}
    for function in host_functions(module):
        name = mlir.symbol_name(function)
        if name in _closure(calls, calls[name]):
            raise LoweringError(
                f"{module.context.aot_path}: recursion cannot be compiled",
                diagnostics=(mlir.diagnostic_at(function, f"function '@{name}' calls itself"),),
            )


def _closure(calls: dict[str, set[str]], start: Iterable[str]) -> set[str]:
    found: set[str] = set()
    todo = set(start)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo |= calls.get(name, set())
    return found
