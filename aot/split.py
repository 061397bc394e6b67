"""``--split-archs``: a package for each generation of GPUs, and a small one in front that takes the one that fits.

In: BuildRequest. Out: SplitResult: the wheels of the parts, newest first, and the front's. A part is a package like any
other, called ``<name>-sm9`` for the architectures of compute capability 9.x; PTX goes into the newest. CPU code is in
all of them: whoever installs one part has it.

>>> [part.package for part in build(BuildRequest(("kernels",), archs="sm_80,sm_90")).parts]   # doctest: +SKIP
['kernels_sm9', 'kernels_sm8']
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aot
from aot import fileset, pipeline, plan, resources
from aot.errors import ArchUnfit, UsageError
from aot.packages import package
from aot.packages.splitpackage import Part, SplitSpec, render
from aot.plan import Plan
from aot.reporting import buildresult
from aot.reporting.buildresult import BuildResult
from aot.reporting.report import Reporter, of_caller
from aot.request import BuildRequest
from aot.targets import arch
from aot.wheels import packing, wheel
from aot.wheels.runtimeobjects import Runtime

_FRONT = "front"
_HOST = "host"


@dataclass(frozen=True)
class SplitResult:
    """Finished wheels."""

    wheel: Path
    """Of the package in front."""
    package: str
    version: str
    parts: tuple[BuildResult, ...]
    seconds: float


def build(request: BuildRequest, reporter: Reporter | None = None) -> SplitResult:
    """Builds all the wheels."""
    tell, start = of_caller(reporter), time.monotonic()
    if request.sdist:
        raise UsageError("--sdist and --split-archs exclude each other")
    if request.c:
        raise UsageError("--c and --split-archs exclude each other")
    planned = plan.plan(request)
    groups = _groups(planned)
    built = {extra: made for extra, archs in groups.items() if (made := _part(request, planned, extra, archs, tell))}
    if not built:
        raise ArchUnfit(f"no source can be built for {', '.join(planned.archs)}")
    tell.stage(f"packaging {planned.package.name} {planned.package.version}")
    place = planned.work / _FRONT
    with fileset.lock(place, lambda: tell.note(f"waiting for another build in '{place}'")):
        files = render(_front(planned, built), package.read_templates(resources.templates()))
        fileset.write_tree(files, place / "tree")
        options = wheel.Options(pure=True, epoch=planned.engine.epoch)
        runtime = Runtime(planned.engine.levels(), place / "wheel")
        packed = packing.wheel_of(files, place / "tree", runtime.place, options, runtime)
        published = fileset.publish(packed.wheel, planned.out)
    seconds = round(time.monotonic() - start, 3)
    return SplitResult(published, planned.package.name, planned.package.version, tuple(built.values()), seconds)


def _groups(planned: Plan) -> dict[str, list[str]]:
    """Extra -> architectures, newest first."""
    found: dict[int, list[str]] = {}
    for name in planned.archs:
        if name != _HOST:
            found.setdefault(arch.target(name).capability[0], []).append(name)
    if len(found) < 2:
        raise UsageError(
            f"--split-archs makes a package for each generation of GPUs; {', '.join(planned.archs)} is one",
            hint="ask for several, such as --archs sm_80,sm_90",
        )
    return {f"sm{major}": found[major] for major in sorted(found, reverse=True)}


def _part(request: BuildRequest, planned: Plan, extra: str, archs: list[str], tell: Reporter) -> BuildResult | None:
    """One package; None where ``aot.toml`` leaves no source for it."""
    newest = extra == next(iter(_groups(planned)))
    own = replace(
        request,
        archs=",".join([*archs, *([_HOST] if planned.cpu else [])]),
        name=f"{planned.package.distribution}-{extra}",
        version=planned.package.version,
        ptx=request.ptx if newest or request.ptx is False else _named_ptx(archs),
        work=str(planned.work / extra),
        dump=str(planned.dump / extra) if planned.dump else None,
    )
    try:
        return pipeline.build(own, tell)
    except ArchUnfit as error:
        if any(source.selection.picks for source in plan.plan(own).sources):
            raise
        tell.note(f"no package for {extra}: {error.message}")
        return None


def _named_ptx(archs: list[str]) -> bool | None:
    """PTX that was asked for by name stays; none is added."""
    return None if any(arch.target(name).kind == arch.PTX for name in archs) else False


def _front(planned: Plan, built: dict[str, BuildResult]) -> SplitSpec:
    names = planned.package
    parts = tuple(
        Part(extra, each.package, f"{names.distribution}-{extra}", _stored(each)) for extra, each in built.items()
    )
    namespaces: dict[str, tuple[str, ...]] = {}
    stubs: dict[str, bytes] = {}
    frameworks: set[str] = set()
    for each in built.values():
        folder = each.tree / "src" / each.package
        for source in each.sources:
            namespaces.setdefault(source.name, source.functions)
            stubs.setdefault(source.name, fileset.read_file(folder / f"{source.name}.pyi"))
        frameworks |= {path.stem for path in folder.glob("[!_]*.py")}
    return SplitSpec(
        name=names.name,
        distribution=names.distribution,
        version=names.version,
        generator=aot.__version__,
        description=names.description,
        license=names.license,
        parts=parts,
        namespaces=namespaces,
        stubs=stubs,
        frameworks=tuple(sorted(frameworks)),
        cpu=planned.cpu,
    )


def _stored(result: BuildResult) -> tuple[str, ...]:
    """Images of all sources together."""
    return tuple(dict.fromkeys(image for source in result.sources for image in source.images))


def as_json(result: SplitResult) -> dict[str, object]:
    """The result as plain values."""
    own = {"wheel": str(result.wheel), "package": result.package, "version": result.version}
    return {**own, "seconds": result.seconds, "parts": [buildresult.as_json(each) for each in result.parts]}


def summary(result: SplitResult) -> str:
    """The parts' tables, and a line about the package in front."""
    return "\n".join(_lines(result))


def _lines(result: SplitResult) -> Iterator[str]:
    for each in result.parts:
        yield buildresult.summary(each)
    yield f"built {result.package} {result.version}, which takes the one that fits, in {result.seconds:.1f} s in all"
