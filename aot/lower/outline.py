"""One host module and one gpu.module for a whole source.

In: up to two modules (tensor level, launch level) with gpu.launch regions, user's gpu.modules, ready gpu.binary ops.
Out: Joined: launches outlined, all kernels in one gpu.module with symbols ``<module>__<kernel>``, all host symbols
prefixed ``aot_<source>__`` (a user's ``@tanh`` or ``@main`` must never bind to a library's), tokens normalised.

>>> joined = join([tensor_module, launch_module], "softmax")            # doctest: +SKIP
>>> joined.kernels[0]
KernelSymbol(module='softmax', name='softmax_kernel', symbol='softmax__softmax_kernel', ready=False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import gpu

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import opwalk, symbols, views
from aot.lower.gpumodule import imageneeds, oddintegers
from aot.lower.launches import byvalue, tiling
from aot.lower.launchlevel import asyncform
from aot.lower.source import sourcelevel

FUNCTION = "aot.function"
"""Attribute of a gpu.module made by outlining: the function that its kernel was a part of."""

_KNOWN_BLOCK, _LIMIT = "known_block_size", "nvvm.maxntid"
_LINKED = frozenset({"func.func", "llvm.func"})
_GLOBALS = frozenset({"memref.global", "llvm.mlir.global"})


@dataclass(frozen=True)
class KernelSymbol:
    """Where a kernel went."""

    module: str
    """gpu.module or gpu.binary it came from."""
    name: str
    """As the user, or outlining, named it."""
    symbol: str
    """In the blob."""
    ready: bool = False
    """True for kernels of a gpu.binary: compiled by somebody else."""


@dataclass(frozen=True)
class ReadyObject:
    """One object of a user's gpu.binary."""

    binary: str
    """Name of the op."""
    target: str
    """Its target attribute, as text."""
    kind: str
    """``cubin``, ``fatbin`` or ``ptx``."""
    data: bytes


@dataclass(frozen=True)
class Joined:
    """A source on its way to device and host code."""

    host: mlir.Module
    """Host functions, and the gpu.module."""
    device: mlir.Operation | None
    """The gpu.module inside ``host``; None when the source has no kernels of its own."""
    kernels: tuple[KernelSymbol, ...]
    """In the order of the gpu.module."""
    ready: tuple[ReadyObject, ...] = ()


def join(modules: Sequence[mlir.Module], source: str) -> Joined:
    """Outline all launches and make one module of everything."""
    for module in modules:
        _outline(module)
    ready = tuple(each for module in modules for each in _ready(module))
    kernels: list[KernelSymbol] = []
    taken: set[str] = set()
    for module in modules:
        _prefix_host_symbols(module, source, taken)
    host = modules[0]
    for other in modules[1:]:
        _move_all(other, host)
    device = _join_device(host, source, kernels)
    launched = {symbols.path(op.attributes["kernel"]) for op in _named(host, "gpu.launch_func")}
    binaries = {each.binary for each in ready}
    kernels += [KernelSymbol(binary, name, name, ready=True) for binary, name in sorted(launched) if binary in binaries]
    if ready and device is not None:
        raise LoweringError(
            f"{host.context.aot_path}: both ready gpu.binary ops and gpu.modules to compile in one source",
            hint="one source makes one fatbin; put the ready binaries in a source of their own",
        )
    mlir.verify(host, "joining the modules of the source")
    return Joined(host, device, tuple(kernels), ready)


def _outline(module: mlir.Module) -> None:
    """Turn gpu.launch regions into kernels, named by their function and numbered."""
    _refuse_nested(module)
    oddintegers.widen(module)
    before = {mlir.symbol_name(op) for op in sourcelevel.top(module) if op.name in sourcelevel.DEVICE_CONTAINERS}
    marks = [_marks(op) for op in _named(module, "gpu.launch")]
    if any(name.startswith("nvgpu.") for name in mlir.op_names(module)):
        mlir.run_passes(module, ["convert-nvgpu-to-nvvm"], "lowering nvgpu")
    passes = ["gpu-launch-sink-index-computations", "gpu-kernel-outlining"] if marks else []
    mlir.run_passes(module, passes, "outlining kernels")
    # Functions that only kernels call have been copied into the gpu.modules; the host could not run them.
    sourcelevel.drop_unused(module)
    for op in mlir.walk(module):
        if views.DEVICE_MARK in op.attributes:
            del op.attributes[views.DEVICE_MARK]
    asyncform.normalise(module)
    outlined = [
        op for op in _named(module, "gpu.launch_func") if symbols.path(op.attributes["kernel"])[0] not in before
    ]
    _name_kernels(module, outlined, marks)


def _refuse_nested(module: mlir.Module) -> None:
    found = _named(module, _PRINT, *sourcelevel.LAUNCH_OPS)
    faults = tuple(mlir.diagnostic_at(op, _misplaced(op)) for op in found if mlir.inside_kernel(op))
    if faults:
        raise LoweringError(f"{module.context.aot_path}: host code inside of kernels", diagnostics=faults)


def _misplaced(op: mlir.Operation) -> str:
    if op.name.startswith("gpu.launch"):
        return "a kernel cannot launch another one"
    instead = "gpu.printf prints in kernels" if op.name == _PRINT else "it belongs before the launch, or behind it"
    return f"'{op.name}' is host code, and stands in a kernel: {instead}"


_PRINT = "vector.print"
_Marks = dict[str, ir.Attribute]
"""Attributes of a launch that its kernel is to have."""


def _marks(op: mlir.Operation) -> _Marks:
    names = (*tiling.ATTRIBUTES, imageneeds.ATTRIBUTE, imageneeds.LESS_SHARED)
    return {name: op.attributes[name] for name in op.attributes if name in names or name.startswith("nvvm.")}


def _named(module: mlir.Module, *names: str) -> list[mlir.Operation]:
    return opwalk.named(module, *names)


def _name_kernels(module: mlir.Module, outlined: list[mlir.Operation], marks: list[_Marks]) -> None:
    """Outlining names every kernel of a function alike, in gpu.modules of their own: number them."""
    containers = {mlir.symbol_name(op): op for op in sourcelevel.top(module) if op.name == "gpu.module"}
    numbers: dict[str, int] = {}
    names: dict[symbols.Path, symbols.Path] = {}
    for op, marked in zip(outlined, marks, strict=True):
        container, old = symbols.path(op.attributes["kernel"])
        function = _function_around(op)
        number = numbers[function] = numbers.get(function, -1) + 1
        kernel = f"{function}_kernel" + (f"_{number}" if number else "")
        inner = next(each for each in sourcelevel.top(containers[container]) if mlir.symbol_name(each) == old)
        symbols.rename(inner, kernel)
        names[container, old] = (container, kernel)
        containers[container].attributes[FUNCTION] = ir.StringAttr.get(function)
        if _KNOWN_BLOCK in inner.attributes:
            # It becomes the limit, and upstream's conversion aborts on two of them.
            marked.pop(_LIMIT, None)
        for attribute, value in marked.items():
            inner.attributes[attribute] = value
        byvalue.mark(op, inner)
    symbols.rename_references(module.operation, names)


def _function_around(op: mlir.Operation) -> str:
    return next(mlir.symbol_name(each) for each in mlir.parents(op) if each.name == "func.func")


def _ready(module: mlir.Module) -> list[ReadyObject]:
    found = []
    for op in sourcelevel.top(module):
        if op.name != "gpu.binary":
            continue
        for attribute in ir.ArrayAttr(op.attributes["objects"]):
            each = gpu.ObjectAttr(attribute)
            found.append(ReadyObject(mlir.symbol_name(op), str(each.target), _kind(op, each), each.object))
    return found


def _kind(op: mlir.Operation, each: gpu.ObjectAttr) -> str:
    """What the bytes are; their beginning tells, the attribute's format does not always."""
    data = each.object
    for start, kind in ((b"\x7fELF", "cubin"), (b"\x50\xed\x55\xba", "fatbin")):
        if data.startswith(start):
            return kind
    if b".version" in data and b".target" in data:
        return "ptx"
    raise LoweringError(
        "a gpu.binary that holds no cubin, fatbin or PTX",
        diagnostics=(mlir.diagnostic_at(op, f"object of '@{mlir.symbol_name(op)}' cannot be loaded by a CUDA driver"),),
    )


def _prefix_host_symbols(module: mlir.Module, source: str, taken: set[str]) -> None:
    """Prefix what the module defines; what it only declares keeps its name."""
    names: dict[symbols.Path, symbols.Path] = {}
    for op in sourcelevel.top(module):
        if (op.name in _LINKED and sourcelevel.has_body(op)) or op.name in _GLOBALS:
            old = mlir.symbol_name(op)
            new = symbols.unused(f"aot_{source}__{old}", taken)
            taken.add(new)
            symbols.rename(op, new)
            names[(old,)] = (new,)
    for op in sourcelevel.top(module):
        if op.name not in sourcelevel.DEVICE_CONTAINERS:
            symbols.rename_references(op, names)


def _move_all(other: mlir.Module, host: mlir.Module) -> None:
    """Only declarations and gpu.modules can clash: what host code defines has names of its own by now."""
    present = {mlir.symbol_name(op) for op in sourcelevel.top(host)}
    body = host.operation.regions[0].blocks[0]
    for op in sourcelevel.top(other):
        name = mlir.symbol_name(op)
        if op.name == "gpu.module" and name in present:
            new = symbols.unused(name, present)
            paths = [(name, mlir.symbol_name(each)) for each in sourcelevel.top(op)]
            symbols.rename_references(other.operation, {path: (new, path[1]) for path in paths})
            symbols.rename(op, new)
    for op in sourcelevel.top(other):
        if mlir.symbol_name(op) not in present:
            body.append(op)
    if "gpu.container_module" in other.operation.attributes:
        host.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()


def _join_device(host: mlir.Module, source: str, kernels: list[KernelSymbol]) -> mlir.Operation | None:
    """Move the content of all gpu.modules into one named by the source."""
    containers = [op for op in sourcelevel.top(host) if op.name == "gpu.module"]
    if not containers:
        return None
    taken: set[str] = set()
    names: dict[symbols.Path, symbols.Path] = {}
    target = symbols.unused(source, {mlir.symbol_name(op) for op in sourcelevel.top(host) if op.name != "gpu.module"})
    for container in containers:
        module = mlir.symbol_name(container)
        label = ir.StringAttr(container.attributes[FUNCTION]).value if FUNCTION in container.attributes else module
        inner: dict[symbols.Path, symbols.Path] = {}
        for op in sourcelevel.top(container):
            name = mlir.symbol_name(op)
            if not name or (op.name in _LINKED and not sourcelevel.has_body(op)):
                continue
            symbol = symbols.unused(f"{label}__{name}", taken)
            taken.add(symbol)
            symbols.rename(op, symbol)
            inner[(name,)] = (symbol,)
            names[(module, name)] = (target, symbol)
            if sourcelevel.is_kernel(op):
                kernels.append(KernelSymbol(label, name, symbol))
                _mark_for_llvm(op)
        symbols.rename_references(container, inner)
    for op in sourcelevel.top(host):
        if op.name != "gpu.module":
            symbols.rename_references(op, names)
    return _one_module(host, containers, target)


def _mark_for_llvm(kernel: mlir.Operation) -> None:
    """An ``llvm.func`` marked as a kernel for the GPU dialect only would become a plain function."""
    if kernel.name == "llvm.func":
        kernel.attributes["nvvm.kernel"] = ir.UnitAttr.get()


def _one_module(host: mlir.Module, containers: list[mlir.Operation], name: str) -> mlir.Operation:
    with ir.InsertionPoint(containers[0]), containers[0].location:
        joined = ir.Operation.create("gpu.module", attributes={"sym_name": ir.StringAttr.get(name)}, regions=1)
        block = joined.regions[0].blocks.append()
    declared: set[str] = set()
    for container in containers:
        for op in sourcelevel.top(container):
            if op.name in _LINKED and not sourcelevel.has_body(op):
                if mlir.symbol_name(op) in declared:
                    continue
                declared.add(mlir.symbol_name(op))
            block.append(op)
        container.erase()
    host.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    return joined
