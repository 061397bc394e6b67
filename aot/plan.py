"""Turns a request into a plan: every decision of a build that needs no compiler.

In: BuildRequest, the options as given. Out: Plan, with the sources, their images, the names and
the toolchain settled. All wrong uses end here, before any work is done.

>>> plan(BuildRequest(("kernels",))).package.name   # doctest: +SKIP
'kernels'
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aot import driver, errors, fileset, naming, sources
from aot.engine import engineoptions
from aot.engine.engineoptions import LOCAL, Engine
from aot.errors import ArchUnfit, UsageError
from aot.fatbins import fatbin
from aot.request import BuildRequest, check
from aot.settings import config, configfiles, configvalues, selection
from aot.settings.config import Config, SourceSettings
from aot.settings.selection import Selection
from aot.settings.wishes import known_schedules
from aot.sources import SourceFile
from aot.targets import archlist
from aot.targets.arch import PTX, Target, coverage_note, default_ptx
from aot.tools import freethreaded, toolchain
from aot.tools.freethreaded import FreeThreaded
from aot.tools.toolchain import Toolchain

ARCHS_VARIABLE = "AOT_ARCHS"
DEFAULT_VERSION = "0.1.0"
TRIPLES = {"x86-64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
"""Names of machines in ``aot.toml`` -> triples of host code."""
MACHINES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
"""What Python calls this machine -> the name in ``aot.toml``."""


@dataclass(frozen=True)
class PackageNames:
    """What the package is called."""

    name: str
    """Import name."""
    distribution: str
    version: str
    description: str
    license: str


@dataclass(frozen=True)
class PlannedSource:
    """A source and the images it gets."""

    file: SourceFile
    selection: Selection
    settings: SourceSettings
    """With nothing left to settle."""


@dataclass(frozen=True)
class Plan:
    """A build with nothing left to decide."""

    package: PackageNames
    sources: tuple[PlannedSource, ...]
    left_out: tuple[str, ...]
    """Sources whose ``archs`` match no request."""
    archs: tuple[str, ...]
    """Requested, in canonical spelling; ``host`` last."""
    toolchain: Toolchain
    toolkit: str | None
    cuda: int | None
    triples: tuple[str, ...]
    compress: str
    """``none``, ``fast`` or ``size``: what ``auto`` means here is settled."""
    jobs: int
    """Jobs at a time; 0: as many as the executor can do."""
    engine: Engine
    sdist: bool
    tvm_ffi: bool
    c: bool
    python: FreeThreaded | None
    """Whom the wheel is for, instead of every ordinary Python."""
    out: Path
    work: Path
    dump: Path | None
    notes: tuple[str, ...]
    cpu: bool = False
    """Tensor-level functions are compiled for CPUs, too."""
    lineinfo: bool = False
    only: tuple[str, ...] = ()


def plan(request: BuildRequest, environment: Mapping[str, str] | None = None) -> Plan:
    """Settles everything, or raises what is wrong."""
    env = os.environ if environment is None else environment
    check(request)
    folder, settings = _settings(request)
    package = _names(request, settings, folder)
    requested = _archs(request, settings, env)
    found = sources.discover(request.sources)
    beside = sources.names_in(Path(settings.path).parent) if settings.path else ()
    config.check_sources(settings, [*(source.name for source in found), *beside])
    ptx = _automatic_ptx(request, settings, requested.targets)
    chosen, left_out = _select(found, settings, requested, automatic_ptx=ptx)
    toolkit, cuda = _toolkit(request, settings)
    tools = toolchain.find(toolkit, cuda, env)
    _check_images(chosen, tools, _variable(request, env))
    out, work, dump = _places(request)
    return Plan(
        package=package,
        sources=chosen,
        left_out=left_out,
        archs=(*requested.names(), *(["host"] if requested.host else [])),
        toolchain=tools,
        toolkit=toolkit,
        cuda=cuda,
        triples=_triples(settings, host=requested.host, sdist=request.sdist),
        compress=fatbin.compression(request.compress or settings.build.compress or "none", tools),
        jobs=request.jobs or (engineoptions.processors(env) if request.executor == LOCAL else 0),
        engine=engineoptions.of(request.executor, request.cache, request.cache_remote, env),
        sdist=request.sdist,
        tvm_ffi=request.tvm_ffi,
        c=request.c,
        python=freethreaded.find(request.free_threaded) if request.free_threaded is not None else None,
        out=out,
        work=work,
        dump=dump,
        notes=(*requested.notes, *_notes(requested.targets, left_out, ptx=ptx)),
        cpu=requested.host,
        lineinfo=request.lineinfo,
        only=request.only,
    )


def _check_images(chosen: Sequence[PlannedSource], tools: Toolchain, variable: str) -> None:
    """ArchUnsupported for what the tools cannot build; ``variable`` is the one that says the architectures, if any."""
    images = {pick.image for each in chosen for pick in each.selection.picks}
    with errors.saying(variable):
        toolchain.check(tools, sorted(images, key=Target.sort_key))


def _places(request: BuildRequest) -> tuple[Path, Path, Path | None]:
    """Folders of results, of intermediate files, and of dumps."""
    out, work = naming.place(request.out), naming.place(request.work, builds=True)
    dump = naming.place(request.dump) if request.dump else None
    for place in filter(None, (out, work, dump)):
        fileset.check_writable(place)
    return out, work, dump


def folders(paths: Sequence[str]) -> list[Path]:
    """Of the sources."""
    return list(dict.fromkeys(Path(path) if Path(path).is_dir() else Path(path).parent for path in paths))


def _settings(request: BuildRequest) -> tuple[Path, Config]:
    """The first source's folder, and the settings of the one folder that has some."""
    found = folders(request.sources)
    place = configfiles.place(found)
    settings = configfiles.load(place, with_tuned=request.tuned) if place else Config()
    return found[0], replace(settings, schedules=known_schedules(request.schedules))


def _names(request: BuildRequest, settings: Config, folder: Path) -> PackageNames:
    said = settings.package
    given = said.name or naming.from_folder(folder.resolve().name)
    # What the command line says counts also when it is empty: a variable that is not set is a mistake.
    name = naming.distribution(given if request.name is None else request.name)
    version = said.version or DEFAULT_VERSION
    return PackageNames(
        name=naming.import_name(name),
        distribution=name,
        version=naming.version(version if request.version is None else request.version),
        description=said.description or "",
        license=naming.spdx(said.license) if said.license else "",
    )


def _archs(request: BuildRequest, settings: Config, env: Mapping[str, str]) -> archlist.ArchList:
    """Command line, then environment, then ``aot.toml``, then the default."""
    said = env.get(ARCHS_VARIABLE) or settings.build.archs or archlist.DEFAULT
    if request.archs is not None:
        said = request.archs
    with errors.saying(_variable(request, env)):
        return archlist.parse(said, driver.capabilities)


def _variable(request: BuildRequest, env: Mapping[str, str]) -> str:
    """The one that says the architectures, if one does."""
    return ARCHS_VARIABLE if request.archs is None and env.get(ARCHS_VARIABLE) else ""


def _automatic_ptx(request: BuildRequest, settings: Config, targets: Sequence[Target]) -> bool:
    """Whether PTX is added: not when it is named, not when it is unwanted."""
    named = [target.name for target in targets if target.kind == PTX]
    if named and request.ptx is False:
        raise UsageError(f"--no-ptx and {', '.join(named)} contradict each other")
    wanted = request.ptx if request.ptx is not None else settings.build.ptx
    return not named and wanted is not False


def _select(
    found: Sequence[SourceFile], settings: Config, requested: archlist.ArchList, *, automatic_ptx: bool
) -> tuple[tuple[PlannedSource, ...], tuple[str, ...]]:
    chosen, left_out = [], []
    for source in found:
        own = settings.source(source.name)
        place = f"{settings.place(f'source.{source.name}')}: [source.{source.name}]"
        picked = selection.for_source(requested.targets, own, place, automatic_ptx=automatic_ptx)
        if picked.picks or requested.host:
            chosen.append(PlannedSource(source, picked, own))
        else:
            left_out.append(source.name)
    if not chosen:
        names = ", ".join(requested.names())
        raise ArchUnfit(
            f"no source can be built for {names}: {settings.path} leaves them all out",
            hint="ask for other architectures with --archs",
        )
    return tuple(chosen), tuple(left_out)


def _notes(targets: Sequence[Target], left_out: Sequence[str], *, ptx: bool) -> tuple[str, ...]:
    """What the user should know before the work begins."""
    images = [*targets, *filter(None, [default_ptx(targets)])]
    warning = coverage_note(images) if ptx else ""
    missing = (f"source '{name}' is left out: its archs match none of those requested" for name in left_out)
    return (*missing, *([warning] if warning else []))


def _toolkit(request: BuildRequest, settings: Config) -> tuple[str | None, int | None]:
    """The options' toolkit, else the file's, whose folder counts from the file."""
    if request.toolkit or request.cuda:
        return (str(Path(request.toolkit).absolute()) if request.toolkit else None), request.cuda
    said = settings.build.toolkit
    return (str(Path(settings.path).absolute().parent / said) if said else None), settings.build.cuda


def _triples(settings: Config, *, host: bool, sdist: bool) -> tuple[str, ...]:
    """Machines to make host code for: those of ``aot.toml``, else this one, and all for a source distribution.

    ``host`` asks for this one too.
    """
    here = MACHINES.get(platform.machine().lower())
    names = settings.build.hosts or (configvalues.HOSTS if sdist else ())
    if here is None and not names:
        raise UsageError(
            f"host code for this machine ({platform.machine()}) cannot be made",
            hint=f'name the machines in aot.toml: [build] hosts = ["{configvalues.HOSTS[0]}"]',
        )
    if here is not None and (host or not names):
        names = (here, *(name for name in names if name != here))
    return tuple(TRIPLES[name] for name in sorted(set(names)))
