"""The whole way from sources to a wheel: the one place that knows the order of the stages.

In: BuildRequest. Out: BuildResult, with the wheel in ``--out``; nothing is written there before
everything is done and checked.

>>> build(BuildRequest(("kernels",))).wheel   # doctest: +SKIP
PosixPath('dist/kernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl')
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import aot
from aot import (
    ccompiler,
    compiling,
    fatbin,
    fileset,
    job,
    metadata,
    mlir,
    naming,
    package,
    packing,
    plan,
    resources,
    told,
    toolchain,
    toolid,
    wheel,
)
from aot.arch import CUBIN
from aot.buildresult import KEPT, BuildResult, BuiltSource, as_json, summary
from aot.cachelevels import Levels
from aot.compiling import Done
from aot.errors import ArchUnfit
from aot.executor import Orders
from aot.job import CompileJob
from aot.model import CompiledSource, PackageSpec, ToolVersions
from aot.plan import BuildRequest, Plan, PlannedSource
from aot.report import Reporter, Silent
from aot.stamp import Stamp
from aot.toolid import Identity

__all__ = ["BuildRequest", "BuildResult", "as_json", "build", "summary"]


_PARTS = ("jobs", "objects", "tree", "wheel")
"""Folders in the work folder, of which old files are removed."""
_RECORD = "done.json"


def build(request: BuildRequest, reporter: Reporter | None = None) -> BuildResult:
    """Builds the wheel that is asked for."""
    tell = reporter or Silent()
    start = time.monotonic()
    planned = plan.plan(request)
    ccompiler.find()
    for note in planned.notes:
        tell.note(note)
    fileset.check_ours(planned.work, _PARTS)
    with fileset.lock(planned.work, lambda: tell.note(f"waiting for another build in '{planned.work}'")) as lock:
        return _build(planned, tell, start, lock)


def _build(planned: Plan, tell: Reporter, start: float, lock: int) -> BuildResult:
    """The stages, in their order."""
    identity, levels = toolid.of(planned.toolchain), planned.engine.levels()
    jobs = tuple(_job(planned, source, identity.digest()) for source in planned.sources)
    sources = "1 source" if len(jobs) == 1 else f"{len(jobs)} sources"
    tell.stage(f"compiling {sources} for {', '.join(planned.archs)}")
    done = compiling.run(jobs, compiling.Floor(planned.work, _orders(planned, identity), lock), tell)
    stamp = Stamp(planned.work / _RECORD, _everything(planned, jobs))
    result = None if done else stamp.read(BuildResult)
    if result is not None:
        _tell_notes(result, planned, tell)
        kept = tuple(dataclasses.replace(each, how=KEPT, seconds=0.0) for each in result.sources)
        return dataclasses.replace(result, sources=kept, seconds=_since(start))
    result = _packaged(planned, jobs, done, levels, tell)
    stamp.write(result, [path for path in (result.wheel, result.sdist) if path])
    if levels.local:
        levels.local.prune()
    return dataclasses.replace(result, seconds=_since(start))


def _packaged(
    planned: Plan, jobs: Sequence[CompileJob], done: Mapping[str, Done], levels: Levels, tell: Reporter
) -> BuildResult:
    """The second half: from compiled sources to the wheel in its place."""
    compiled, left_out = _used(compiling.results(jobs))
    naming.check_entries((each.name, function.name) for each in compiled for function in each.functions)
    for each in compiled:
        for detail in told.details(each):
            tell.detail(f"{each.path}: {detail}")
    result = BuildResult(
        wheel=planned.out,
        wheel_bytes=0,
        sdist=None,
        tree=planned.work / "tree",
        package=planned.package.name,
        version=planned.package.version,
        archs=planned.archs,
        sources=tuple(_built(each, done) for each in compiled),
        left_out=(*planned.left_out, *left_out),
        notes=planned.notes,
        seconds=0.0,
    )
    _tell_notes(result, planned, tell)
    tell.stage(f"packaging {planned.package.distribution} {planned.package.version}")
    files = _package(planned, compiled, result.left_out)
    fileset.write_tree(files, result.tree)
    options = wheel.Options(sdist=planned.sdist, epoch=planned.engine.epoch)
    made = packing.wheel_of(files, result.tree, planned.work / "wheel", options, levels)
    for note in levels.notes():
        tell.note(note)
    published = fileset.publish(made.wheel, planned.out)
    sdist = fileset.publish(made.sdist, planned.out) if made.sdist else None
    return dataclasses.replace(result, wheel=published, wheel_bytes=made.bytes, sdist=sdist)


def _everything(planned: Plan, jobs: Sequence[CompileJob]) -> str:
    """The digest of all that the result depends on, the places of its files included."""
    digest = hashlib.sha256(packing.identity().encode())
    for value in (planned.package, planned.archs, planned.left_out, planned.notes, planned.out, planned.sdist):
        digest.update(f"{value}\n".encode())
    digest.update(f"{planned.engine.epoch} {planned.compress}\n".encode())
    for each in jobs:
        digest.update(job.encode(each))
    templates = package.read_templates(resources.templates())
    for path in sorted(templates):
        digest.update(f"{path} {len(templates[path])}\n".encode() + templates[path])
    return digest.hexdigest()


def _orders(planned: Plan, identity: Identity) -> Orders:
    engine = planned.engine
    return Orders(
        slots=planned.jobs,
        executor=engine.executor,
        cache=str(engine.cache) if engine.cache else None,
        remote=engine.remote,
        toolkit=planned.toolkit,
        cuda=planned.cuda,
        identity=identity,
    )


def _tell_notes(result: BuildResult, planned: Plan, tell: Reporter) -> None:
    for name in result.left_out:
        if name not in planned.left_out:
            tell.note(f"source '{name}' is left out: it has no code for what was asked for")
    for each in result.sources:
        for note in told.notes(each):
            tell.note(f"{each.path}: {note}")


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)


def _used(compiled: Sequence[CompiledSource]) -> tuple[tuple[CompiledSource, ...], tuple[str, ...]]:
    """The sources that have something to call, and names of the others: without images only CPU code is left."""
    used = tuple(each for each in compiled if callables(each) or each.fatbin)
    if not used:
        raise ArchUnfit(
            "nothing is left to build: only tensor-level functions run on a CPU, and the sources have none",
            hint="ask for GPU architectures with --archs",
        )
    return used, tuple(each.name for each in compiled if each not in used)


def _job(planned: Plan, source: PlannedSource, tool: str) -> CompileJob:
    file = source.file
    return CompileJob(
        name=file.name,
        path=file.path,
        file=str(Path(file.path).absolute()),
        sha256=hashlib.sha256(file.data).hexdigest(),
        bytes=len(file.data),
        transform=str(Path(file.transform).absolute()) if file.transform else None,
        transform_sha256=_digest(file.transform),
        output=str(planned.work / "objects" / file.name),
        images=source.selection.names(),
        skipped=source.selection.skipped,
        triples=planned.triples,
        cpu=planned.cpu,
        compress=planned.compress,
        lineinfo=planned.lineinfo,
        accumulate=source.accumulate,
        passes=source.passes,
        wishes=source.wishes,
        toolkit=planned.toolkit,
        cuda=planned.cuda,
        dump=str(planned.dump / file.name) if planned.dump else None,
        tool=tool,
    )


def _package(planned: Plan, compiled: Sequence[CompiledSource], left_out: Sequence[str]) -> fileset.FileSet:
    """The generated package as a value."""
    spec = _spec(planned, compiled)
    templates = package.read_templates(resources.templates())
    document = {**metadata.manifest(spec, compiled), "left_out": list(left_out)}
    return package.render(spec, compiled, document, templates)


def _spec(planned: Plan, compiled: Sequence[CompiledSource]) -> PackageSpec:
    # Of PTX that a source brought along the version is not known.
    images = [
        (image.kind, image.ptx_version)
        for each in compiled
        if each.fatbin
        for image in each.fatbin.images
        if image.ptx_version or image.kind == CUBIN
    ]
    needs = toolchain.min_driver_cuda(planned.toolchain, images, compressed=planned.compress != "none")
    versions = ToolVersions(
        aot=aot.__version__,
        mlir=mlir.version(),
        ptxas=planned.toolchain.ptxas_version,
        min_driver_cuda=needs[0] * 1000 + needs[1] * 10,
    )
    return PackageSpec(
        name=planned.package.name,
        distribution=planned.package.distribution,
        version=planned.package.version,
        versions=versions,
        top_level=naming.top_level({each.name: callables(each) for each in compiled}),
        description=planned.package.description,
        license=planned.package.license,
    )


def callables(compiled: CompiledSource) -> tuple[str, ...]:
    """Names of what Python can call in a source's namespace."""
    kernels = (kernel.name for kernel in compiled.kernels if kernel.callable)
    return (*(function.name for function in compiled.functions), *kernels)


def _digest(script: str | None) -> str:
    return hashlib.sha256(fileset.read_file(Path(script))).hexdigest() if script else ""


def _built(compiled: CompiledSource, done: Mapping[str, Done]) -> BuiltSource:
    binary, ran = compiled.fatbin, done.get(compiled.name, Done(KEPT, 0.0))
    return BuiltSource(
        name=compiled.name,
        path=compiled.path,
        functions=callables(compiled),
        kernels=len(compiled.kernels),
        images=tuple(image.target for image in binary.images) if binary else (),
        image_bytes=tuple(entry.bytes for entry in fatbin.entries(binary.data)) if binary else (),
        blob_bytes=len(binary.data) if binary else 0,
        skipped=compiled.skipped,
        notes=compiled.notes,
        general=compiled.general,
        how=ran.how,
        seconds=ran.seconds,
    )
