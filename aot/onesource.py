"""One source from its bytes to its CompiledSource: the part of the pipeline that runs in a worker.

In: a CompileJob. Out: signatures, kernels, one fatbin, host code per machine. With ``--dump`` the IR
after each stage is kept as numbered files.

>>> compile_source(job, lambda stage: None).fatbin.images[0].target   # doctest: +SKIP
'sm_80'
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from aot import fileset, host, lexer, lower, mlir, naming, sources
from aot.dump import Dump
from aot.engine import forked
from aot.engine.job import CompileJob
from aot.errors import LoweringError, SourceError
from aot.fatbins import binary, cpuonly, fatbin, images, spills
from aot.fatbins.images import Bench
from aot.fatbins.kernelnames import Names
from aot.lexer import FunctionText
from aot.lower import LoweredSource, Options, Request
from aot.lower.general.schedule import ONE_THREAD
from aot.lower.source import sourcelevel, unplaced
from aot.model import TENSOR, CompiledSource, FatBinary, Function, HostObject, Kernel
from aot.settings import selection
from aot.settings.selection import Selection
from aot.settings.wishes import GENERAL, Dropped
from aot.targets import arch, archneed
from aot.targets.arch import PTX
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain

_FOREIGN = "aot reads MLIR's own dialects; lower others (StableHLO, Triton, …) to linalg first"
_HINTS = {
    "unregistered dialect": _FOREIGN,
    "not found for custom op": _FOREIGN,
    "'gpu.container_module' attribute": "write all of the source in `module attributes {gpu.container_module} { … }`",
}
"""What MLIR says of a source that it does not take -> what to do."""


def compile_source(job: CompileJob, mark: Callable[[str], None], crew: forked.Crew) -> CompiledSource:
    """Compiles one source; ``mark`` is told each step before it begins, ``crew`` says when targets go side by side."""
    # Dumped files are numbered in their order.
    return spills.without(partial(_compile, job, forked.here(mark), forked.Alone() if job.dump else crew))


def _compile(
    job: CompileJob, mark: Callable[[str], None], crew: forked.Crew, dropped: tuple[Dropped, ...]
) -> CompiledSource:
    """The source without candidates that spilled before."""
    tools = toolchain.find(job.toolkit, job.cuda)
    source = sources.read(Path(job.file))
    if (_digest(source.data), _script_digest(source.transform)) != (job.sha256, job.transform_sha256):
        raise SourceError(f"{job.path}: the file changed while it was being built", hint="build again")
    texts = {} if source.data.startswith(sources.BYTECODE_MAGIC) else lexer.argument_names(source.data.decode())
    dump = Dump(job.dump)
    with mlir.context(mark) as ctx:
        module = _parsed(source.data, job.path, ctx)
        places = sourcelevel.places(module)
        lowered = lower.lower(module, _request(job, texts, dropped), dump)
        functions, kernels = _described(lowered.functions, lowered.kernels, texts)
        naming.check_functions(job.name, _called(functions, kernels), places)
        selected, remarks = _selected(job, lowered, kernels, tools)
        with forked.Aside(partial(_processors, job, lowered, tools, dump, mark), crew) as others:
            blob, notes = _device(job, lowered, selected, Bench(job.path, tools, dump, others, job.lineinfo))
        if blob is not None and job.dump is not None:
            binary.embed(lowered.host, blob)
            dump("binary", lowered.host)
    kernels = _placed(kernels, blob) if lowered.device is not None else kernels
    compiled = CompiledSource(
        name=job.name,
        path=job.path,
        sha256=job.sha256,
        functions=functions,
        kernels=kernels,
        fatbin=blob,
        host=others.result(),
        messages=_portable(job, lowered.messages),
        skipped=selected.skipped,
        notes=_portable(job, (*lowered.notes, *remarks, *notes, *(_absent(kernels, blob) if job.images else ()))),
        schedules=job.schedules,
        general=lowered.general.reasons,
        remarks=lowered.general.followers,
        passthrough=tuple(sorted({each.binary for each in lowered.ready})),
    )
    return compiled if job.images else cpuonly.reduced(compiled)


def _parsed(data: bytes, path: str, ctx: mlir.Context) -> mlir.Module:
    try:
        return mlir.parse(data, path, ctx)
    except SourceError as error:
        said = [each.message for each in error.diagnostics]
        error.diagnostics = tuple(unplaced.placed(ctx, each) for each in error.diagnostics)
        error.hint = next((hint for words, hint in _HINTS.items() if any(words in each for each in said)), "")
        raise


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _script_digest(script: str | None) -> str:
    return _digest(fileset.read_file(Path(script))) if script else ""


def _portable(job: CompileJob, texts: Sequence[str]) -> tuple[str, ...]:
    """Texts that go into the package name the file without its folder: the same package comes from any folder."""
    return tuple(text.replace(job.path, Path(job.path).name) for text in texts)


def _request(job: CompileJob, texts: Mapping[str, FunctionText], dropped: tuple[Dropped, ...]) -> Request:
    names = {function: naming.argument_names(text.names) for function, text in texts.items()}
    return Request(
        source=job.name,
        names=names,
        options=Options(
            wide_accumulation=job.accumulate == "f32",
            precision=job.precision,
            masked_zeros=job.fully_masked == "zero",
            schedules=job.schedules,
            wishes=job.wishes,
            dropped=dropped,
            capabilities=tuple(sorted({arch.target(image).capability for _, image in job.images})),
        ),
        passes=job.passes,
        only=job.only,
        script=job.transform,
        cpus=job.triples if job.cpu else (),
    )


def _may_be_slow(job: CompileJob, lowered: LoweredSource) -> bool:
    """Whether fast schedules are off, and nothing else is in the source than what could have had some."""
    made = {each.schedule for each in lowered.kernels}
    ours = made <= {GENERAL, ONE_THREAD} and all(each.level == TENSOR for each in lowered.functions)
    return job.schedules == GENERAL and ours


def _called(functions: Sequence[Function], kernels: Sequence[Kernel]) -> list[str]:
    """Names by which Python calls the source."""
    return [*(each.name for each in functions), *(each.name for each in kernels if each.callable)]


def _described(
    functions: Sequence[Function], kernels: Sequence[Kernel], texts: Mapping[str, FunctionText]
) -> tuple[tuple[Function, ...], tuple[Kernel, ...]]:
    """The functions with the comments that stand above them."""
    nothing = FunctionText((), "")
    return (
        tuple(replace(each, doc=each.doc or texts.get(each.name, nothing).comment) for each in functions),
        tuple(
            replace(each, doc=each.doc or texts.get(f"{each.module}::{each.name}", nothing).comment) for each in kernels
        ),
    )


def _selected(
    job: CompileJob, lowered: LoweredSource, kernels: Sequence[Kernel], tools: Toolchain
) -> tuple[Selection, tuple[str, ...]]:
    """The images to build, of kinds that can hold the kernels, and a note about them."""
    selected, remarks = _narrow(job, lowered, tools)
    needs = {arch.target(each.needs) for each in kernels if each.needs}
    return selection.specialised(selected, [each for each in needs if toolchain.supports(tools, each)]), remarks


def _narrow(job: CompileJob, lowered: LoweredSource, tools: Toolchain) -> tuple[Selection, tuple[str, ...]]:
    """The images to build, and a note about them.

    Targets in the source itself narrow the request as ``archs`` in ``aot.toml`` does; when they match nothing
    of it, the source's word counts.
    """
    picks = tuple(selection.Pick(arch.target(asked), arch.target(image)) for asked, image in job.images)
    if not picks or not lowered.own_chips or lowered.device is None:
        return Selection(picks, job.skipped), ()
    own = [arch.target(chip) for chip in lowered.own_chips]
    cubins = [pick.image for pick in picks if pick.image.kind != PTX]
    found = selection.select(cubins, own, automatic_ptx=any(pick.image.kind == PTX for pick in picks))
    skipped = (*job.skipped, *found.skipped)
    if not found.picks:
        toolchain.check(tools, own)
        note = f"is built for its own targets ({', '.join(lowered.own_chips)}), which were not asked for"
        return Selection(tuple(selection.Pick(each, each) for each in own), skipped), (note,)
    asked_for = {pick.image: pick.requested for pick in picks}
    kept = tuple(selection.Pick(asked_for.get(pick.requested, pick.requested), pick.image) for pick in found.picks)
    return Selection(kept, skipped), ()


def _device(
    job: CompileJob, lowered: LoweredSource, selected: Selection, bench: Bench
) -> tuple[FatBinary | None, tuple[str, ...]]:
    """The source's one fatbin, and what ptxas remarked."""
    if not job.images:
        return None, ()
    if lowered.ready:
        return _ready(job, lowered, selected)
    if lowered.device is None:
        return None, ()
    names = Names(lowered.kernels)
    with names.in_errors():
        built = images.build(lowered.device, selected.picks, replace(bench, quick=_may_be_slow(job, lowered)))
    # Not the source's name: sources with the same kernels get the same bytes, which a package holds once.
    name = min((kernel.symbol for kernel in lowered.kernels), default=job.name)
    blob = binary.merge(name, built, job.compress)
    bench.dump.keep("images.fatbin", blob.data)
    return blob, tuple(names.told(note) for each in built for note in each.notes)


def _placed(kernels: Sequence[Kernel], blob: FatBinary | None) -> tuple[Kernel, ...]:
    """The kernels with the targets whose images hold them."""
    targets = [image.target for image in blob.images] if blob else []
    return tuple(
        replace(each, targets=tuple(t for t in targets if archneed.meets(arch.target(t), each.needs, each.less_shared)))
        for each in kernels
    )


def _absent(kernels: Sequence[Kernel], blob: FatBinary | None) -> Iterator[str]:
    """Of kernels that no image holds: those that Python launches, or all where there are no others.

    Host code chooses among the rest, by what the image at hand holds.
    """
    images_of = ", ".join(image.target for image in blob.images) if blob else "none"
    alone = not any(each.targets for each in kernels)
    for each in kernels:
        if each.needs and not each.targets and (alone or each.callable):
            yield f"kernel '{each.name}' is in no image: it needs {each.needs}, images are for {images_of}"


def _ready(job: CompileJob, lowered: LoweredSource, selected: Selection) -> tuple[FatBinary, tuple[str, ...]]:
    """Ready binaries of the source, as they are, and which of the requests they do not serve."""
    if lowered.device is not None:
        raise LoweringError(
            f"{job.path}: holds ready gpu.binary ops and kernels that are still to be compiled",
            hint="put them into sources of their own: a source has one binary",
        )
    given = [fatbin.Given(each.kind, each.data, _chip(each.target)) for each in lowered.ready]
    blob = fatbin.adopt(job.name, given, job.compress)
    images = [arch.target(image.target) for image in blob.images if image.kind == arch.CUBIN]
    images += [arch.target(image.target) for image in blob.images if image.kind == PTX and image.target[-1:].isdigit()]
    missing = [
        pick.requested.name
        for pick in selected.picks
        if pick.image.kind == arch.CUBIN and not any(arch.runs_on(image, pick.image.capability) for image in images)
    ]
    note = f"its ready binary has nothing for {', '.join(missing)}"
    return blob, (note,) if missing else ()


def _chip(target: str) -> str:
    """Chip of an ``#nvvm.target``, which the bindings know as text only; empty when it names none."""
    found = re.search(r'\bchip = "(\w+)"', target)
    return found[1] if found else ""


def _processors(
    job: CompileJob, lowered: LoweredSource, tools: Toolchain, dump: Dump, mark: Callable[[str], None]
) -> tuple[HostObject, ...]:
    """All code that is not for a GPU."""
    return _host(job, lowered, tools, dump, mark) + _cpu(job, lowered, tools, dump, mark)


def _host(
    job: CompileJob, lowered: LoweredSource, tools: Toolchain, dump: Dump, mark: Callable[[str], None]
) -> tuple[HostObject, ...]:
    """Host code for every machine; nothing for a source of kernels alone."""
    if not lowered.host_ir:
        return ()
    dump.keep("host.ll", lowered.host_ir.encode())
    quick, found = _may_be_slow(job, lowered), []
    for triple in job.triples:
        mark(f"host code for {triple}")
        found.append(host.assemble(lowered.host_ir, triple, job.path, tools, quick=quick))
        dump.keep(f"host-{triple}.s", found[-1].assembly)
    return tuple(found)


def _cpu(
    job: CompileJob, lowered: LoweredSource, tools: Toolchain, dump: Dump, mark: Callable[[str], None]
) -> tuple[HostObject, ...]:
    """Code of tensor-level functions for every kind of processor."""
    found = []
    for code in lowered.cpu:
        name = f"cpu-{code.variant.triple}-{code.variant.name}"
        mark(f"code for {code.variant.processor}")
        dump.keep(f"{name}.ll", code.llvm_ir.encode())
        found.append(host.assemble_cpu(code.llvm_ir, code.variant, job.path, tools))
        dump.keep(f"{name}.s", found[-1].assembly)
    return tuple(found)
