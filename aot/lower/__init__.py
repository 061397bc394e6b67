"""From a parsed source to code for the device and the host: the order of the steps, and nothing else.

In: a parsed module with its namespace, argument names and options, inside an MLIR context. Out: signatures,
kernels, LLVM IR of the host functions, and the source's one gpu.module, not yet lowered for any target.

>>> done = lower(module, Request("softmax", {"softmax": ["x"]}, Options()), mlir.no_dump)     # doctest: +SKIP
>>> done.kernels[0].symbol
'softmax_kernel__softmax_kernel'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot import mlir
from aot.errors import LoweringError
from aot.lower import cpu, launch, outline, tensor
from aot.lower.bufferization import expandshape
from aot.lower.cpu import CpuCode
from aot.lower.fast.dispatch import General
from aot.lower.gpumodule import device, inflight, undefined
from aot.lower.hostmodule import entries, hostcode
from aot.lower.launchlevel import syncrule
from aot.lower.numbers import powers, roundings, scaledfloats
from aot.lower.outline import ReadyObject
from aot.lower.source import badconstants, badtypes, badviews, kernels, misplaced, missingdata, prepare, sourcelevel
from aot.lower.tolinalg import frontend, unitviews
from aot.model import MESSAGES, Function, Kernel
from aot.settings import wishes
from aot.targets import arch, cpuvariant

Options = tensor.Options


@dataclass(frozen=True)
class Request:
    """What is to be lowered, besides the module itself."""

    source: str
    """Namespace of the source."""
    names: Mapping[str, Sequence[str]]
    """Argument names found in the source's text, by function."""
    options: Options = field(default_factory=Options)
    passes: tuple[str, ...] = ()
    """The source's own passes, run first."""
    only: tuple[str, ...] = ()
    """Tensor-level functions that are wanted, and nothing else; empty: everything."""
    script: str | None = None
    """Path of a transform script that lies beside the source, run next."""
    cpus: tuple[str, ...] = ()
    """Triples of the machines whose CPUs run tensor-level functions, too."""


@dataclass(frozen=True)
class LoweredSource:
    """A source on its way to binaries and objects; modules live as long as their context."""

    functions: tuple[Function, ...]
    kernels: tuple[Kernel, ...]
    """In the order in which host code numbers them."""
    messages: tuple[str, ...]
    """Texts of host assertions."""
    host_ir: str
    """LLVM IR; empty when the source has no host functions."""
    host: mlir.Module
    """Host functions and gpu.module together, where the merged fatbin goes back into."""
    device: mlir.Module | None
    """The gpu.module in a module of its own; None when nothing is to be compiled for the device."""
    ready: tuple[ReadyObject, ...]
    """Objects of gpu.binary ops that the source brought along."""
    own_chips: tuple[str, ...]
    """Chips that the source's own gpu.modules name."""
    notes: tuple[str, ...]
    general: General
    """Work that has no better schedule."""
    cpu: tuple[CpuCode, ...] = ()
    """Code of the tensor-level functions for CPUs, by triple and variant."""


def lower(module: mlir.Module, request: Request, dump: mlir.Dumper) -> LoweredSource:
    """Lower one source; ``module`` is used up."""
    module = _prepared(module, request, dump)
    own_chips = sourcelevel.targets(module)
    parts = _parts(module, request)
    modules: list[mlir.Module] = []
    functions: tuple[Function, ...] = ()
    messages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    general = General()
    written: kernels.Written = {}
    code: tuple[CpuCode, ...] = ()
    if parts.tensor is not None:
        copy = cpu.copy(parts.tensor) if request.cpus else None
        own = {arch.target(chip).capability for chip in own_chips}
        options = replace(request.options, capabilities=tuple(sorted({*request.options.capabilities, *own})))
        done = tensor.lower(parts.tensor, request.names, options, dump)
        modules.append(done.module)
        functions, messages = _with_messages(done.module, done.functions), done.messages
        notes, general = done.notes, done.general
        if copy is not None:
            code = _cpu(copy, request, messages, dump)
            messages = code[-1].messages
            functions = tuple(replace(each, cpu=True) for each in functions)
    if parts.launch is not None:
        kept = launch.lower(parts.launch, request.names, dump, len(messages), request.options.capabilities)
        modules.append(kept.module)
        functions, messages, written = functions + kept.functions, messages + kept.messages, kept.kernels
    for each in modules:
        undefined.check(each)
    joined = outline.join(modules, request.source)
    expandshape.rewrite(joined.host)
    dump("joined", joined.host)
    notes += inflight.notes(joined.host)
    found = kernels.describe(joined, written, _arguments(functions, request.source))
    named = entries.named(functions, request.source)
    host_ir = hostcode.lower(joined.host, named, found, request.source, dump) if named else ""
    isolated = device.isolate(joined.host) if joined.device is not None and found else None
    ready = joined.ready
    return LoweredSource(named, found, messages, host_ir, joined.host, isolated, ready, own_chips, notes, general, code)


def _arguments(functions: Sequence[Function], source: str) -> dict[str, list[str]]:
    """Names of the arguments of each host function, by its symbol."""
    return {entries.lowered_name(each, source): [argument.name for argument in each.args] for each in functions}


def _parts(module: mlir.Module, request: Request) -> sourcelevel.Parts:
    """The source by level; what is wished for is there."""
    parts = sourcelevel.only(sourcelevel.split(module), request.only)
    tops = [] if parts.tensor is None else sourcelevel.public_functions(parts.tensor)
    wishes.check_functions(request.options.wishes, [mlir.symbol_name(op) for op in tops])
    return parts


def _prepared(module: mlir.Module, request: Request, dump: mlir.Dumper) -> mlir.Module:
    """The module after what the user wants to run first."""
    dump("source", module)
    misplaced.check(module)
    missingdata.check(module)
    badconstants.check(module)
    roundings.check(module)
    if request.passes or request.script or frontend.has_script(module):
        prepare.note_destinations(module)
    if request.passes:
        unitviews.settle(module)
        _run_own(module, request)
        dump("own-passes", module)
    badtypes.check(module)
    if request.script:
        frontend.add_script(module, request.script)
    prepared = prepare.run(module)
    badviews.check(prepared)
    powers.lower(prepared)
    scaledfloats.lower(prepared)
    return prepared


def _run_own(module: mlir.Module, request: Request) -> None:
    try:
        for each in request.passes:
            mlir.run_passes(module, [each], "running the source's own passes")
    except LoweringError as error:
        error.hint = error.hint or f"they are `passes` in [source.{request.source}] of aot.toml"
        raise


def _cpu(module: mlir.Module, request: Request, messages: tuple[str, ...], dump: mlir.Dumper) -> tuple[CpuCode, ...]:
    """Code of the tensor-level functions for every variant of every machine."""
    prepared = cpu.prepare(module, request.names, request.options, dump)
    done: list[CpuCode] = []
    for variant in (each for triple in request.cpus for each in cpuvariant.of(triple)):
        done.append(cpu.lower(prepared, cpu.CpuJob(request.source, variant, messages), module.context, dump))
        messages = done[-1].messages
    return tuple(done)


def _with_messages(module: mlir.Module, functions: Sequence[Function]) -> tuple[Function, ...]:
    """Kernels of tensor-level functions can assert, too."""
    ops = {mlir.symbol_name(op): op for op in sourcelevel.public_functions(module)}
    return tuple(
        replace(each, flags=tuple(sorted({*each.flags, MESSAGES})))
        if syncrule.messages(ops[each.name], module)
        else each
        for each in functions
    )
