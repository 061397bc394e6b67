"""The whole way from sources to a wheel: the one place that knows the order of the stages.

In: BuildRequest. Out: BuildResult, with the wheel in ``--out``; nothing is written there before
everything is done and checked.

>>> build(BuildRequest(("kernels",))).wheel   # doctest: +SKIP
PosixPath('dist/kernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl')
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from aot import fileset, plan, resources
from aot.engine import compiling, job
from aot.engine.compiling import Done
from aot.engine.executor import Orders
from aot.engine.job import CompileJob
from aot.engine.prefetch import Prefetch
from aot.engine.stamp import Stamp
from aot.model import CompiledSource
from aot.packages.contribution import Content
from aot.plan import Plan, PlannedSource
from aot.reporting import buildnotes
from aot.reporting.buildresult import KEPT, BuildResult, as_json, summary
from aot.reporting.report import Reporter, of_caller
from aot.request import BuildRequest
from aot.tools import ccompiler, packid, toolid
from aot.tools.toolid import Identity
from aot.wheels.runtimeobjects import Runtime

__all__ = ["BuildRequest", "BuildResult", "as_json", "build", "summary"]


Value = TypeVar("Value")
_PARTS = ("c", "jobs", "objects", "tree", "wheel")
"""Folders in the work folder, of which old files are removed."""
_RECORD = "done.json"


def build(request: BuildRequest, reporter: Reporter | None = None) -> BuildResult:
    """Builds the wheel that is asked for."""
    tell = of_caller(reporter)
    start = time.monotonic()
    planned = plan.plan(request)
    ccompiler.command()
    runtime = Runtime(planned.engine.levels(), planned.work / "wheel")
    with _uncollected(), _begun(planned, tell) as lock, contextlib.closing(runtime):
        return _build(planned, tell, start, lock, runtime)


def compiled(request: BuildRequest, reporter: Reporter | None = None) -> tuple[CompiledSource, ...]:
    """Compiles the sources as ``build`` does, and packages nothing."""
    tell = of_caller(reporter)
    planned = plan.plan(request)
    with _begun(planned, tell) as lock:
        ahead, done = _compile(planned, tell, lock, job.read_result)
        return ahead.results(done)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage: nearly all that a build makes, it keeps, and a large package is looked through often."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def _begun(planned: Plan, tell: Reporter) -> Iterator[int]:
    """Holds the work folder; what is given is its lock."""
    for note in planned.notes:
        tell.note(note)
    fileset.check_ours(planned.work, _PARTS)
    with fileset.lock(planned.work, lambda: tell.note(f"waiting for another build in '{planned.work}'")) as lock:
        yield lock


def _compile(
    planned: Plan,
    tell: Reporter,
    lock: int,
    read: Callable[[CompileJob], Value],
    runtime: Runtime | None = None,
) -> tuple[Prefetch[Value], dict[str, Done]]:
    """What jobs of all sources leave, as ``read`` reads it, and those that were not done before.

    ``runtime`` is compiled while jobs run, if there are any; they end with it if that fails.
    """
    identity = toolid.of(planned.toolchain)
    jobs = tuple(_job(planned, source, identity.digest()) for source in planned.sources)
    sources = "1 source" if len(jobs) == 1 else f"{len(jobs)} sources"
    tell.stage(f"compiling {sources} for {', '.join(planned.archs)}")
    ahead, floor = Prefetch(jobs, read), compiling.Floor(planned.work, _orders(planned, identity), lock)

    def begin() -> None:
        ahead.begin()
        if runtime is not None:
            runtime.begin()

    return ahead, compiling.run(jobs, floor, tell, begin, runtime.check if runtime is not None else lambda: None)


def _build(planned: Plan, tell: Reporter, start: float, lock: int, runtime: Runtime) -> BuildResult:
    """The stages, in their order."""
    ahead, done = _compile(planned, tell, lock, _reading(), runtime if planned.python is None else None)
    stamp = Stamp(planned.work / _RECORD, _everything(planned, ahead.jobs))
    result = None if done else stamp.read(BuildResult)
    if result is not None:
        if tell.verbose:
            buildnotes.tell_details(ahead.results(done), tell)
        buildnotes.tell_notes(result, planned.left_out, tell)
        kept = tuple(dataclasses.replace(each, how=KEPT, seconds=0.0) for each in result.sources)
        return dataclasses.replace(result, sources=kept, seconds=_since(start))
    # What only packaging needs takes longer to import than a build that has nothing to do.
    from aot import finishing

    result = finishing.finish(planned, ahead.results(done), done, runtime, tell)
    stamp.write(result, [path for path in (result.wheel, result.sdist, *result.c_files) if path])
    if runtime.levels.local:
        runtime.levels.local.prune()
    return dataclasses.replace(result, seconds=_since(start))


def _reading() -> Callable[[CompileJob], Content]:
    """Reads results as the package needs them."""

    @functools.cache
    def reader() -> Callable[[CompileJob], Content]:
        # What only packaging needs takes longer to import than a build that has nothing to do.
        from aot import finishing

        return finishing.Reader()

    return lambda todo: reader()(todo)


def _everything(planned: Plan, jobs: Sequence[CompileJob]) -> str:
    """The digest of all that the result depends on, the places of its files included."""
    digest = hashlib.sha256(f"{packid.identity()} {resources.digest(resources.templates())}".encode())
    of_package = (planned.package, planned.archs, planned.left_out, planned.notes, planned.out, planned.sdist)
    for value in (*of_package, planned.python):
        digest.update(f"{value}\n".encode())
    digest.update(f"{planned.engine.epoch} {planned.compress} {planned.tvm_ffi} {planned.c}\n".encode())
    for each in jobs:
        digest.update(job.encode(each))
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


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)


def _job(planned: Plan, source: PlannedSource, tool: str) -> CompileJob:
    file, settings = source.file, source.settings
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
        only=planned.only,
        accumulate=settings.accumulate,
        precision=settings.precision,
        fully_masked=settings.fully_masked,
        schedules=settings.schedules,
        passes=settings.passes,
        wishes=settings.wishes,
        toolkit=planned.toolkit,
        cuda=planned.cuda,
        dump=str(planned.dump / file.name) if planned.dump else None,
        tool=tool,
    )


def _digest(script: str | None) -> str:
    return hashlib.sha256(fileset.read_file(Path(script))).hexdigest() if script else ""
