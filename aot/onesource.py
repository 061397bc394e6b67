"""One source, from its file to all that it puts into a package: parse, lower, translate, merge, compile.

In: a CompileJob. Out: a CompiledSource. Runs in a worker process of its own; ``mark`` is told each step, so
that a crash can be placed.

>>> compile_source(job, process.stage_marker()).fatbin.images     # doctest: +SKIP
(Image(requested='sm_80', target='sm_80', kind='cubin', bytes=5800, ptx_version='7.0'),)
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from aot import arch, binary, fatbin, fileset, host, lexer, mlir, toolchain
from aot.arch import PTX, Target
from aot.errors import SourceError
from aot.job import CompileJob
from aot.lexer import FunctionText
from aot.lower import LoweredSource, Options, Request, device, lower
from aot.model import CompiledSource, FatBinary, Function, HostObject, Kernel
from aot.toolchain import Toolchain

BYTECODE = b"ML\xefR"

Named = TypeVar("Named", Function, Kernel)


def compile_source(job: CompileJob, mark: Callable[[str], None]) -> CompiledSource:
    """Compile a job's source for all its targets."""
    data = fileset.read_file(Path(job.file))
    if hashlib.sha256(data).hexdigest() != job.sha256:
        raise SourceError(f"{job.path} changed while the build was running", hint="build again")
    said = {} if data.startswith(BYTECODE) else lexer.argument_names(data.decode("utf-8"))
    tools = toolchain.find(toolkit=job.toolkit, cuda=job.cuda)
    with mlir.context(mark) as ctx:
        dump = _dumper(job.dump)
        module = mlir.parse(data, job.path, ctx)
        lowered = lower(module, _request(job, said), dump)
        picked, notes = _targets(job, lowered)
        made, more = _fatbin(job, lowered, picked, tools, dump)
        mark("compiling host code")
        return CompiledSource(
            name=job.name,
            path=job.path,
            sha256=job.sha256,
            functions=tuple(_with_comment(each, said) for each in lowered.functions),
            kernels=tuple(_with_comment(each, said) for each in lowered.kernels),
            fatbin=made,
            host=_host(job, lowered, tools),
            messages=lowered.messages,
            skipped=job.skipped,
            notes=(*lowered.notes, *notes, *more),
            passthrough=tuple(sorted({each.binary for each in lowered.ready})),
        )


def _request(job: CompileJob, said: Mapping[str, FunctionText]) -> Request:
    names = {function: text.names for function, text in said.items()}
    return Request(job.name, names, Options(wide_accumulation=job.accumulate == "f32"), job.passes)


def _dumper(folder: str | None) -> mlir.Dumper:
    """Keeps the IR of each stage as ``<number>-<stage>.mlir``."""
    if folder is None:
        return mlir.no_dump
    count = 0

    def dump(stage: str, module: mlir.Module) -> None:
        nonlocal count
        count += 1
        fileset.write_file(Path(folder) / f"{count:02}-{stage}.mlir", str(module).encode())

    return dump


def _targets(job: CompileJob, lowered: LoweredSource) -> tuple[tuple[tuple[str, Target], ...], tuple[str, ...]]:
    """(requested, image) to build. Targets that the source's own gpu.modules name replace the request."""
    asked = tuple((requested, arch.target(image)) for requested, image in job.images)
    if not lowered.own_chips:
        return asked, ()
    own = tuple((chip, arch.target(chip)) for chip in lowered.own_chips)
    ptx = tuple(pick for pick in asked if pick[1].kind == PTX and pick[1].chip in lowered.own_chips)
    missed = [requested for requested, image in asked if image.chip not in lowered.own_chips]
    note = f"its gpu.modules carry targets of their own and are built for {', '.join(lowered.own_chips)}"
    return (*own, *ptx), (f"{note}, not for {', '.join(missed)}" if missed else note,)


def _fatbin(
    job: CompileJob,
    lowered: LoweredSource,
    picked: Sequence[tuple[str, Target]],
    tools: Toolchain,
    dump: mlir.Dumper,
) -> tuple[FatBinary | None, tuple[str, ...]]:
    """All images in one fatbin, and what ptxas had to say; None when nothing is launched."""
    mode = fatbin.compression(job.compress, tools)
    if lowered.ready:
        given = [fatbin.Given(each.kind, each.data, _chip(each.target)) for each in lowered.ready]
        return fatbin.adopt(job.name, given, mode), ()
    if lowered.device is None:
        return None, ()
    toolchain.check(tools, [image for _, image in picked])
    built = tuple(
        _image(lowered.device, requested, image, number, tools, dump)
        for number, (requested, image) in enumerate(picked)
    )
    merged = binary.merge(job.name, built, mode)
    binary.embed(lowered.host, merged)
    dump("binary", lowered.host)
    if job.dump:
        _keep_ptx(Path(job.dump), built)
    return merged, tuple(note for each in built for note in each.notes)


def _image(
    module: mlir.Module, requested: str, image: Target, number: int, tools: Toolchain, dump: mlir.Dumper
) -> binary.BuiltImage:
    if image.kind == PTX:
        return binary.ptx(
            lambda version: device.lower(module, device.DeviceJob(image, version, number)), image, requested, tools
        )
    version = arch.cubin_ptx(image)
    assert version is not None, f"{image.name} passed toolchain.check without a PTX version"
    return binary.cubin(
        device.lower(module, device.DeviceJob(image, version, number), dump), image, requested, tools
    )


def _keep_ptx(folder: Path, built: Sequence[binary.BuiltImage]) -> None:
    for each in built:
        fileset.write_file(folder / f"{each.image.target}.ptx", each.ptx.encode())


def _chip(target: str) -> str:
    """Chip of an ``#nvvm.target``, which the bindings know as text only."""
    return target.split('chip = "', 1)[1].split('"', 1)[0] if 'chip = "' in target else ""


def _host(job: CompileJob, lowered: LoweredSource, tools: Toolchain) -> tuple[HostObject, ...]:
    if not lowered.host_ir:
        return ()
    return tuple(host.assemble(lowered.host_ir, triple, job.path, tools) for triple in job.triples)


def _with_comment(each: Named, said: Mapping[str, FunctionText]) -> Named:
    """Comments of the source become docstrings."""
    text = said.get(each.name)
    return dataclasses.replace(each, doc=text.comment) if text and text.comment else each
