"""Launch level: functions that allocate, copy and launch by themselves; and kernels without host code.

In: a module with such functions, gpu.modules and gpu.binary ops (``sourcelevel.split``), and argument names found in
the source text. Out: the same module with functions on memrefs that return numbers only, their signatures, the user's
kernels, and texts of host assertions; launches are not outlined yet.

>>> done = lower(module, {"scale": ["x"]}, mlir.no_dump)                # doctest: +SKIP
>>> done.functions[0].flags
('host_sync',)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.bufferization import constants
from aot.lower.checks import asserts, stepcheck
from aot.lower.gpumodule import devicecode, printf
from aot.lower.launchlevel import access, asyncform, returned, staging, syncrule
from aot.lower.launchlevel.memory import Spaces
from aot.lower.numbers import smallfloat
from aot.lower.source import kernels, signature, sourcelevel
from aot.model import LAUNCH, Function, Kernel
from aot.targets.arch import Capability


@dataclass(frozen=True)
class LaunchLowered:
    """A lowered launch-level module."""

    module: mlir.Module
    functions: tuple[Function, ...]
    """``entry`` is empty: symbols are named when host code is compiled."""
    messages: tuple[str, ...]
    """Of host assertions."""
    kernels: Mapping[tuple[str, str], Kernel]
    """The user's own, by (gpu.module, name)."""


def lower(
    module: mlir.Module,
    names: Mapping[str, Sequence[str]],
    dump: mlir.Dumper,
    first_message: int = 0,
    capabilities: Sequence[Capability] = (),
) -> LaunchLowered:
    """Lower a module; it is changed. ``first_message`` is the index that the first assertion's text will have."""
    sourcelevel.strip_targets(module)
    sourcelevel.mark_device_functions(module)
    written = kernels.read(module, names, capabilities)
    functions = signature.read(module, names, LAUNCH)
    _refuse_tensors(module)
    printf.normalise(module)
    devicecode.rewrite(module)
    functions = _settle_memory(module, functions)
    dump("launch-memory", module)
    stepcheck.insert(sourcelevel.host_functions(module), everywhere=True)
    messages = asserts.rewrite(module, first_message)
    smallfloat.rewrite(module)
    mlir.verify(module, "launch-level lowering")
    dump("launch", module)
    return LaunchLowered(module, functions, messages, written)


def _settle_memory(module: mlir.Module, functions: Sequence[Function]) -> tuple[Function, ...]:
    """Flags are read from what the user wrote, except that of reads, which appear here."""
    ops = {mlir.symbol_name(op): op for op in sourcelevel.public_functions(module)}
    spaces = Spaces.read(module)
    flags = {name: syncrule.flags(op, module, spaces) for name, op in ops.items()}
    for function in sourcelevel.host_functions(module):
        asyncform.localise(function)
    access.check(module, spaces)
    returned.settle(module, functions, spaces)
    staging.stage(module, spaces)
    with staging.kept_in_place(module, spaces):
        constants.sink(module)
    access.settle(module)
    return tuple(
        replace(each, flags=syncrule.with_reads(flags[each.name], ops[each.name], module)) for each in functions
    )


def _refuse_tensors(module: mlir.Module) -> None:
    """A tensor has no memory that such a function could manage."""
    faults = [
        mlir.diagnostic_at(op, f"'{op.name}' makes a tensor, in a function that manages device memory by itself")
        for function in sourcelevel.host_functions(module)
        for op in mlir.walk(function)
        if any(isinstance(value.type, ir.RankedTensorType | ir.UnrankedTensorType) for value in op.results)
    ]
    faults += [
        mlir.diagnostic_at(function, "a tensor argument, in a function that manages device memory by itself")
        for function in sourcelevel.host_functions(module)
        if any(isinstance(each.type, ir.RankedTensorType) for each in function.regions[0].blocks[0].arguments)
    ]
    if faults:
        raise LoweringError(
            f"{module.context.aot_path}: tensors and launches in one function",
            hint="use memrefs there, or leave the launches to the tool",
            diagnostics=tuple(faults),
        )
