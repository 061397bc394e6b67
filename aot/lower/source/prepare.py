"""A source as parsed becomes one flat list of functions and gpu.modules, with calls inlined.

In: a parsed module. Out: the same module: transform scripts run, modules inside it taken out, kernels written
outside of gpu.modules wrapped in one, calls inlined where that is possible.

>>> parts = sourcelevel.split(run(module))                              # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from mlir import ir

from aot import mlir
from aot.errors import LoweringError, SourceError
from aot.lower.source import signature, sourcelevel
from aot.lower.tolinalg import frontend, unitviews

CONTAINER = "gpu.container_module"
"""Attribute of a module in which kernels are launched."""

WRAPPER = "kernels"
"""Name of the gpu.module put around kernels that stand in no gpu.module."""


def run(module: mlir.Module) -> mlir.Module:
    """Run the source's transform scripts, wrap bare kernels, inline, and check that there is something to build.

    No canonicalization: it would change hand-written kernels (constant predicates folded into inline assembly,
    loops unrolled around asynchronous copies).
    """
    unitviews.settle(module)
    frontend.run_scripts(module)
    _unnest(module)
    _wrap_bare_kernels(module)
    mlir.run_passes(module, ["inline{default-pipeline=}"], "inlining")
    _refuse_recursion(module)
    _separate_called_functions(module)
    if not sourcelevel.public_functions(module):
        _refuse_without_functions(module)
    return module


def note_destinations(module: mlir.Module) -> None:
    """Before passes or scripts of the source's own: write down which arguments are destinations."""
    inlined = module.operation.clone()
    unitviews.settle(inlined)
    _unnest(inlined)
    mlir.run_passes(inlined, ["inline{default-pipeline=}"], "inlining")
    signature.note_destinations(module, inlined)


def _refuse_without_functions(module: mlir.Module) -> None:
    """A source without public functions must be kernels that are launched from Python."""
    kernels = _has_kernels(module)
    lowered = [op for op in sourcelevel.top(module) if op.name == "llvm.func" and sourcelevel.has_body(op)]
    for function in lowered:
        if not kernels or any(op.name == "gpu.launch_func" for op in mlir.walk(function)):
            name = mlir.symbol_name(function)
            raise SourceError(
                f"{module.context.aot_path}: host code in the LLVM dialect",
                hint="let passes end before convert-func-to-llvm and convert-to-llvm: Python calls func.func",
                diagnostics=(mlir.diagnostic_at(function, f"'@{name}' does not say any more what its arguments are"),),
            )
    if not kernels:
        raise SourceError(
            f"{module.context.aot_path}: no kernels: no public function with a body, and no kernel in a gpu.module",
            hint="functions marked 'private' are not part of a package; remove the word to export one",
        )


def _has_kernels(module: mlir.Module) -> bool:
    """Ready binaries have kernels too, but without a host function nobody knows which."""
    return any(
        sourcelevel.is_kernel(op) for container in sourcelevel.device_containers(module) for op in mlir.walk(container)
    )


def _unnest(module: mlir.Module) -> None:
    """Take operations out of modules inside the module: a source is one list of symbols."""
    for op in sourcelevel.top(module):
        if op.name != "builtin.module":
            continue
        names = {mlir.symbol_name(each) for each in sourcelevel.top(module)} - {""}
        for inner in sourcelevel.top(op):
            if mlir.symbol_name(inner) in names:
                raise LoweringError(
                    "two modules inside the source define the same symbol",
                    diagnostics=(mlir.diagnostic_at(inner, f"'@{mlir.symbol_name(inner)}' is defined twice"),),
                )
            inner.move_before(op)
        if CONTAINER in op.attributes:
            module.operation.attributes[CONTAINER] = ir.UnitAttr.get()
        op.erase()


def _wrap_bare_kernels(module: mlir.Module) -> None:
    """Put kernels written as ``llvm.func`` at the top of a module, with all that they use, in a gpu.module."""
    bare = [op for op in sourcelevel.top(module) if op.name == "llvm.func" and sourcelevel.is_kernel(op)]
    if not bare:
        return
    hosts = sourcelevel.host_functions(module)
    if hosts:
        raise LoweringError(
            "kernels outside a gpu.module, in a source that has host functions too",
            hint="put the kernels in a gpu.module; host functions launch them with gpu.launch_func",
            diagnostics=(mlir.diagnostic_at(bare[0], f"kernel '@{mlir.symbol_name(bare[0])}' stands here"),),
        )
    inside = [op for op in sourcelevel.top(module) if op.name not in sourcelevel.DEVICE_CONTAINERS]
    body = module.operation.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(body), bare[0].location:
        wrapper = ir.Operation.create("gpu.module", attributes={"sym_name": ir.StringAttr.get(WRAPPER)}, regions=1)
        block = wrapper.regions[0].blocks.append()
    for op in inside:
        block.append(op)
    module.operation.attributes[CONTAINER] = ir.UnitAttr.get()


def _separate_called_functions(module: mlir.Module) -> None:
    """Give calls that inlining left a private copy of a public function: the exported one changes its signature."""
    called = {name for function in sourcelevel.host_functions(module) for name in sourcelevel.callees(function)}
    taken = {mlir.symbol_name(op) for op in sourcelevel.top(module)}
    for function in sourcelevel.public_functions(module):
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
            if (
                op.name in sourcelevel.CALLS
                and ir.FlatSymbolRefAttr(op.attributes[sourcelevel.CALLS[op.name]]).value == name
            ):
                op.attributes[sourcelevel.CALLS[op.name]] = ir.FlatSymbolRefAttr.get(inner)


def _refuse_recursion(module: mlir.Module) -> None:
    calls = {mlir.symbol_name(op): sourcelevel.callees(op) for op in sourcelevel.host_functions(module)}
    for function in sourcelevel.host_functions(module):
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
