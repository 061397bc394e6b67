"""What Python may know about a source's kernels: parameters, default launch sizes, fixed sizes.

In: the gpu.modules of a source as the user wrote them, and later the joined module. Out: model.Kernel values.

>>> written = read(module, {"scale": ["x", "n"]})                       # doctest: +SKIP
>>> describe(joined, written)[0].callable
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from aot import mlir
from aot.errors import Diagnostic, LoweringError, UnknownArch
from aot.lower.analysis import opwalk, symbols
from aot.lower.gpumodule import earlystart, imageneeds, oddintegers
from aot.lower.hostmodule import launchtext
from aot.lower.hostmodule.launchtext import LaunchText
from aot.lower.launches import byvalue, tiling
from aot.lower.outline import Joined, KernelSymbol
from aot.lower.source import argnames, launchsize, signature, sourcelevel
from aot.model import Argument, ArrayType, Kernel, ScalarType, ValueType
from aot.targets import archneed
from aot.targets.arch import Capability, Target, target

Names = Mapping[str, Sequence[str]]
Written = Mapping[tuple[str, str], Kernel]
"""(gpu.module, kernel) -> its description."""

DESCRIPTOR = "!nvgpu.tensormap.descriptor"
"""Passed as a pointer."""
_FIXED_BLOCK = ("known_block_size", "gpu.known_block_size", "nvvm.reqntid")
"""Attributes that say how many threads a block has."""


def read(module: mlir.Module, names: Names, capabilities: Sequence[Capability] = ()) -> dict[tuple[str, str], Kernel]:
    """Kernels that the user wrote, before any rewrite; ``symbol`` and ``callable`` come later."""
    found: dict[tuple[str, str], Kernel] = {}
    problems: list[Diagnostic] = []
    for launch in opwalk.named(module, "gpu.launch"):
        try:
            imageneeds.of(launch)
        except UnknownArch as problem:
            problems.append(mlir.diagnostic_at(launch, str(problem)))
    for container in mlir.walk(module):
        if container.name != "gpu.module":
            continue
        for op in _kernels(container):
            try:
                each = _describe(op, mlir.symbol_name(container), names)
                launchsize.check_shared(each.shared, [one for one in capabilities if _is_for(each.needs, one)])
            except (launchsize.UnfitError, UnknownArch) as problem:
                problems.append(mlir.diagnostic_at(op, str(problem)))
            else:
                found[each.module, each.name] = each
    if problems:
        path = module.context.aot_path
        raise LoweringError(f"{path}: launch attributes that do not fit", diagnostics=tuple(problems))
    return found


def _is_for(need: str, capability: Capability) -> bool:
    """Whether images for this architecture may hold a kernel with this need."""
    return not need or archneed.meets(Target(capability, target(need).letter), need)


def describe(joined: Joined, written: Written, arguments: Names) -> tuple[Kernel, ...]:
    """All kernels of the blob, in the order in which host code numbers them; ``arguments`` of each host function."""
    launches = launchtext.texts(joined.host, arguments)
    launched = {symbols.path(op.attributes["kernel"])[-1] for op in opwalk.named(joined.host, "gpu.launch_func")}
    ops = {} if joined.device is None else {mlir.symbol_name(op): op for op in _kernels(joined.device)}
    found = (_complete(each, ops.get(each.symbol), written, launched) for each in joined.kernels)
    return tuple(_with_launch(each, launches.get(each.symbol)) for each in found)


def _with_launch(kernel: Kernel, launch: LaunchText | None) -> Kernel:
    if kernel.tiling is None or launch is None:
        return kernel
    return replace(kernel, tiling=replace(kernel.tiling, grid=launch.grid, block=launch.block))


def _complete(place: KernelSymbol, op: mlir.Operation | None, written: Written, launched: set[str]) -> Kernel:
    if op is None:
        return Kernel(place.name, place.module, place.symbol)
    known = written.get((place.module, place.name))
    if known is not None:
        free = place.symbol not in launched
        if free:
            _refuse_unpassable(known, op)
        return replace(known, symbol=place.symbol, callable=free)
    try:
        made = _describe(op, place.module, {})
    except launchsize.UnfitError as problem:
        where = (mlir.diagnostic_at(op, f"'{place.name}': {problem}"),)
        raise LoweringError(f"{op.context.aot_path}: launch sizes that do not fit", diagnostics=where) from None
    return replace(made, name=place.name, symbol=place.symbol, schedule=tiling.schedule_of(op), tiling=tiling.read(op))


def _kernels(container: mlir.Operation) -> list[mlir.Operation]:
    return [op for op in opwalk.named(container, "gpu.func", "llvm.func") if sourcelevel.is_kernel(op)]


def _describe(op: mlir.Operation, module: str, names: Names) -> Kernel:
    name = mlir.symbol_name(op)
    params = _params(op, names.get(f"{module}::{name}", names.get(name, ())))
    _check_arguments(op)
    fixed = next((each for each in _FIXED_BLOCK if each in op.attributes), "")
    block = _three(op, fixed)
    sizes = launchsize.read(op, params)
    launchsize.check_block(launchsize.constants(block or ()), fixed)
    if sizes.block is None and block is not None:
        sizes = replace(sizes, block=launchsize.constants(block))
    return Kernel(
        name=name,
        module=module,
        symbol="",
        params=params,
        grid=sizes.grid,
        block=sizes.block,
        shared=sizes.shared,
        cluster=_three(op, "nvvm.cluster_dim") or _three(op, "known_cluster_size"),
        cooperative=sizes.cooperative,
        programmatic=sizes.programmatic or earlystart.is_ours(op),
        priority=sizes.priority,
        max_block=block,
        needs=imageneeds.of(op),
        less_shared=imageneeds.less_shared(op),
    )


def _check_arguments(op: mlir.Operation) -> None:
    """UnfitError for parameters, and memory of a block or a thread, that no kernel has."""
    arguments = list(op.regions[0].blocks[0].arguments)
    for number, argument in enumerate(arguments):
        kind = argument.type
        if number >= _count(op) and isinstance(kind, ir.MemRefType) and not kind.has_static_shape:
            raise launchsize.UnfitError(f"memory of type '{kind}' has no known size; see gpu.dynamic_shared_memory")
        if number < _count(op) and (isinstance(kind, ir.RankedTensorType) or oddintegers.is_odd(kind)):
            raise launchsize.UnfitError(f"parameter {number} has type '{kind}', which no kernel takes")


def _three(op: mlir.Operation, name: str) -> tuple[int, int, int] | None:
    if name not in op.attributes:
        return None
    values = [*ir.DenseI32ArrayAttr(op.attributes[name]), 1, 1]
    return values[0], values[1], values[2]


def _params(op: mlir.Operation, given: Sequence[str]) -> tuple[Argument, ...]:
    """Parameters, also of kernels that outlining made: those may have any type, since Python never passes them."""
    arguments = list(op.regions[0].blocks[0].arguments)[: _count(op)]
    names = argnames.read(op, arguments, given)
    return tuple(_param(op, number, value, names[number]) for number, value in enumerate(arguments))


def _count(op: mlir.Operation) -> int:
    """Number of parameters; attributions of a gpu.func are block arguments too."""
    if op.name == "llvm.func":
        return len(op.regions[0].blocks[0].arguments)
    return len(ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs)


def _param(op: mlir.Operation, number: int, value: mlir.Value, name: str) -> Argument:
    # A pointer to what the kernel gets by value: the value itself is the parameter.
    by_value = any(each.name == "llvm.byval" for each in argnames.attributes(op, number))
    by_value = by_value or number in byvalue.numbers(op)
    type_ = ScalarType("struct by value") if by_value else _type(value.type)
    role = "ref" if isinstance(type_, ArrayType) else "scalar"
    return Argument(name, type_, role)


def _type(type_: ir.Type) -> ValueType:
    text = str(type_)
    if text.startswith(("!llvm.ptr", DESCRIPTOR)):
        return ScalarType("ptr")
    try:
        return signature.value_type(type_)
    except signature.UnsupportedError:
        return ScalarType(text)


PASSABLE = frozenset({"ptr", "index", "f16", "bf16", "f32", "f64"})


def _refuse_unpassable(kernel: Kernel, op: mlir.Operation) -> None:
    faults = [
        mlir.diagnostic_at(op, f"parameter '{each.name}' has type '{each.type.text()}'")
        for each in kernel.params
        if isinstance(each.type, ScalarType) and each.type.dtype not in PASSABLE and not _is_integer(each.type.dtype)
    ]
    if faults:
        raise LoweringError(
            f"kernel '{kernel.name}' has parameters that Python cannot pass",
            hint="kernels take memrefs, numbers and pointers; a host function can launch this one with gpu.launch_func",
            diagnostics=tuple(faults),
        )


def _is_integer(dtype: str) -> bool:
    return dtype.startswith("i") and dtype[1:].isdigit() and int(dtype[1:]) <= 64
