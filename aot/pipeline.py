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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aot
from aot import ccompiler, compiling, fileset, metadata, mlir, naming, package, plan, resources, toolchain, wheel
from aot.arch import CUBIN
from aot.errors import ArchUnfit
from aot.job import CompileJob
from aot.model import CompiledSource, Kernel, PackageSpec, ToolVersions
from aot.plan import BuildRequest, Plan, PlannedSource
from aot.report import Reporter, Silent, plain_table
from aot.tiling import Tiling

__all__ = ["BuildRequest", "BuildResult", "as_json", "build", "summary"]


@dataclass(frozen=True)
class BuiltSource:
    """What one source put into the package."""

    name: str
    path: str
    functions: tuple[str, ...]
    """Names of what Python can call: functions and callable kernels."""
    kernels: int
    images: tuple[str, ...]
    blob_bytes: int
    skipped: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BuildResult:
    """A finished build."""

    wheel: Path
    wheel_bytes: int
    sdist: Path | None
    tree: Path
    """The generated package, which ``pip install`` takes too."""
    package: str
    """Import name."""
    version: str
    archs: tuple[str, ...]
    sources: tuple[BuiltSource, ...]
    left_out: tuple[str, ...]
    """Sources that the requested architectures leave nothing of."""
    notes: tuple[str, ...]
    seconds: float


_PARTS = ("jobs", "objects", "tree", "wheel")
"""Folders in the work folder, of which old files are removed."""


def build(request: BuildRequest, reporter: Reporter | None = None) -> BuildResult:
    """Builds the wheel that is asked for."""
    tell = reporter or Silent()
    start = time.monotonic()
    planned = plan.plan(request)
    ccompiler.find()
    for note in planned.notes:
        tell.note(note)
    fileset.check_ours(planned.work, _PARTS)
    with fileset.lock(planned.work, lambda: tell.note(f"waiting for another build in '{planned.work}'")):
        return _build(planned, tell, start)


def _build(planned: Plan, tell: Reporter, start: float) -> BuildResult:
    """The stages, in their order."""
    jobs = _jobs(planned)
    sources = "1 source" if len(jobs) == 1 else f"{len(jobs)} sources"
    tell.stage(f"compiling {sources} for {', '.join(planned.archs)}")
    compiled, left_out = _used(compiling.run(jobs, planned.work, planned.jobs, tell))
    planned = dataclasses.replace(planned, left_out=(*planned.left_out, *left_out))
    for name in left_out:
        tell.note(f"source '{name}' is left out: it has no code for what was asked for")
    naming.check_entries((each.name, function.name) for each in compiled for function in each.functions)
    for each in compiled:
        for note in each.notes:
            tell.note(f"{each.path}: {note}")
        for kernel in each.kernels:
            if kernel.tiling is not None:
                tell.detail(f"{each.path}: {kernel.name}: {_described(kernel, kernel.tiling)}")
    tell.stage(f"packaging {planned.package.distribution} {planned.package.version}")
    tree = planned.work / "tree"
    fileset.write_tree(_package(planned, compiled), tree)
    made = wheel.build(tree, planned.work / "wheel", sdist=planned.sdist)
    published = fileset.publish(made.wheel, planned.out)
    sdist = fileset.publish(made.sdist, planned.out) if made.sdist else None
    return _result(planned, compiled, published, sdist, time.monotonic() - start)


def _described(kernel: Kernel, tiling: Tiling) -> str:
    """How a kernel was made, in the words that ``aot.toml`` takes."""
    region = f", region {tiling.region}" if tiling.region else ""
    return f"{tiling.kind}{region}: {kernel.schedule}: {tiling.text()}"


def _used(compiled: Sequence[CompiledSource]) -> tuple[tuple[CompiledSource, ...], tuple[str, ...]]:
    """The sources that have something to call, and names of the others: without images only CPU code is left."""
    used = tuple(each for each in compiled if callables(each) or each.fatbin)
    if not used:
        raise ArchUnfit(
            "nothing is left to build: only tensor-level functions run on a CPU, and the sources have none",
            hint="ask for GPU architectures with --archs",
        )
    return used, tuple(each.name for each in compiled if each not in used)


def _jobs(planned: Plan) -> tuple[CompileJob, ...]:
    tool = _tool_id(planned)
    return tuple(_job(planned, source, tool) for source in planned.sources)


def _job(planned: Plan, source: PlannedSource, tool: str) -> CompileJob:
    file = source.file
    return CompileJob(
        name=file.name,
        path=file.path,
        file=str(Path(file.path).absolute()),
        sha256=hashlib.sha256(file.data).hexdigest(),
        transform=str(Path(file.transform).absolute()) if file.transform else None,
        output=str(planned.work / "objects" / file.name),
        images=source.selection.names(),
        skipped=source.selection.skipped,
        triples=planned.triples,
        cpu=planned.cpu,
        compress=planned.compress,
        accumulate=source.accumulate,
        passes=source.passes,
        wishes=source.wishes,
        toolkit=planned.toolkit,
        cuda=planned.cuda,
        dump=str(planned.dump / file.name) if planned.dump else None,
        tool=tool,
    )


def _package(planned: Plan, compiled: Sequence[CompiledSource]) -> fileset.FileSet:
    """The generated package as a value."""
    spec = _spec(planned, compiled)
    templates = package.read_templates(resources.templates())
    document = {**metadata.manifest(spec, compiled), "left_out": list(planned.left_out)}
    return package.render(spec, compiled, document, templates)


def _tool_id(planned: Plan) -> str:
    """Identifies what compiles: versions, and the bytes of aot itself, which change in a checkout."""
    digest = hashlib.sha256()
    tools = planned.toolchain
    for text in (aot.__version__, mlir.version(), str(tools.ptxas), tools.ptxas_version, tools.llvm_version):
        digest.update(text.encode() + b"\0")
    for file in sorted(resources.PACKAGE.rglob("*.py")):
        digest.update(file.relative_to(resources.PACKAGE).as_posix().encode() + b"\0" + fileset.read_file(file) + b"\0")
    return digest.hexdigest()


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


def _result(
    planned: Plan, compiled: Sequence[CompiledSource], published: Path, sdist: Path | None, seconds: float
) -> BuildResult:
    return BuildResult(
        wheel=published,
        wheel_bytes=published.stat().st_size,
        sdist=sdist,
        tree=planned.work / "tree",
        package=planned.package.name,
        version=planned.package.version,
        archs=planned.archs,
        sources=tuple(_built(each) for each in compiled),
        left_out=planned.left_out,
        notes=planned.notes,
        seconds=round(seconds, 3),
    )


def _built(compiled: CompiledSource) -> BuiltSource:
    fatbin = compiled.fatbin
    return BuiltSource(
        name=compiled.name,
        path=compiled.path,
        functions=callables(compiled),
        kernels=len(compiled.kernels),
        images=tuple(image.target for image in fatbin.images) if fatbin else (),
        blob_bytes=len(fatbin.data) if fatbin else 0,
        skipped=compiled.skipped,
        notes=compiled.notes,
    )


def as_json(result: BuildResult) -> dict[str, object]:
    """The result as plain values."""
    plain = dataclasses.asdict(result)
    return {key: str(value) if isinstance(value, Path) else value for key, value in plain.items()}


def summary(result: BuildResult) -> str:
    """A table of the sources, and one line about the wheel."""
    rows = [
        [each.name, str(len(each.functions)), str(each.kernels), " ".join(each.images), str(each.blob_bytes)]
        for each in result.sources
    ]
    table = plain_table("", ["source", "callables", "kernels", "images", "bytes"], rows)
    return f"{table}\nbuilt {result.package} {result.version} in {result.seconds:.1f} s: {result.wheel_bytes} bytes"
