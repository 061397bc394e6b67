"""What `aot tune` could choose: regions of tensor-level functions, and the candidates of each.

In: a TuneRequest. Out: Choosables, as the functions are built without a word of the user's.

>>> choosable(TuneRequest(("softmax.mlir",), archs="sm_90"))[0].default.text()            # doctest: +SKIP
'row: threads 8, rows 16, vectors 2, width 4'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import pipeline, plan
from aot.engine import scratch
from aot.errors import UsageError
from aot.model import TENSOR, CompiledSource
from aot.plan import PlannedSource
from aot.reporting.report import Reporter, Silent
from aot.settings import configfiles
from aot.settings.config import Config
from aot.settings.wishes import ATTENTIONS, FAST, GENERAL, PRODUCTS, WORSE_ATTENTION, check_functions
from aot.tuning import tunecandidates
from aot.tuning.tunecandidates import Candidate
from aot.verifying import options

BUDGET_S = 600.0
MOST = 18
"""Candidates of a region, at most."""
_AS_IT_IS = "as it is"
"""Products and attention have several kernels."""


@dataclass(frozen=True)
class TuneRequest:
    """What to tune."""

    sources: tuple[str, ...]
    functions: tuple[str, ...] = ()
    """Names, ``f`` or ``source.f``; empty: all that have something to choose."""
    dims: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    seed: int = 0
    archs: str | None = None
    """For lists only: what is measured is built for the GPU that is here."""
    jobs: int | None = None
    budget: float = BUDGET_S
    """Seconds that all of it may take, about."""


@dataclass(frozen=True)
class Choosable:
    """A region, and what could be done with it."""

    source: PlannedSource
    function: str
    region: int
    """0: the function's attention, or its products."""
    default: Candidate
    candidates: tuple[Candidate, ...]
    attention: bool = False
    """Whether it is attention in one kernel."""

    @property
    def name(self) -> str:
        return f"{self.source.file.name}.{self.function}"


def choosable(request: TuneRequest, reporter: Reporter | None = None) -> tuple[Choosable, ...]:
    """Regions with candidates, as they are built without a word of the user's; needs no GPU when ``archs`` is given."""
    options.extents(request.dims)
    options.ranges(request.ranges)
    _tell_of_general(configfiles.load(folder(request)), reporter or Silent())
    with scratch.folder("tune") as place:
        build = pipeline.BuildRequest(
            request.sources,
            archs=request.archs or "native",
            ptx=False,
            jobs=request.jobs,
            work=str(place / "build"),
            schedules=FAST,
            tuned=False,
        )
        planned = {each.file.name: each for each in plan.plan(build).sources}
        with_tuned = plan.plan(dataclasses.replace(build, tuned=True)).sources
        compiled = pipeline.compiled(build, reporter)
    for made, source in zip(compiled, with_tuned, strict=True):
        check_functions(source.settings.wishes, [each.name for each in made.functions if each.level == TENSOR])
    found = [each for made in compiled for each in _regions(planned[made.name], made)]
    spoken = tuple(f"{name}.{wish.function}" for name, each in planned.items() for wish in each.settings.wishes)
    return tuple(_chosen(found, request.functions, dict.fromkeys(spoken)))


def _tell_of_general(settings: Config, tell: Reporter) -> None:
    """Fast schedules are what is tuned, also where builds leave them out."""
    if GENERAL in (settings.build.schedules, *(each.schedules for each in settings.sources.values())):
        tell.note(f"{settings.path} switches fast schedules off, and with them what is found here; tuned are fast ones")


def _regions(source: PlannedSource, made: CompiledSource) -> Iterator[Choosable]:
    """Regions of functions for which ``aot.toml`` does not speak; a region's first kernel is its best one."""
    spoken = {wish.function for wish in source.settings.wishes}
    names = [each.name for each in made.functions if each.level == TENSOR and each.name not in spoken]
    attended = [each for name in names for each in _attention(source, name, made)]
    yield from attended
    # A function has one table for what is in no region.
    seen = {(each.function, 0) for each in attended}
    for kernel in made.kernels:
        tiling = kernel.tiling
        if tiling is None or kernel.module not in names or (kernel.module, tiling.region) in seen:
            continue
        if not tiling.region and kernel.schedule not in PRODUCTS:
            continue
        seen.add((kernel.module, tiling.region))
        found = tunecandidates.candidates(tiling.kind, kernel.schedule, dict(tiling.tile))
        if found:
            default = Candidate(kernel.schedule, tiling.tile) if tiling.region else Candidate(_AS_IT_IS)
            limited = tunecandidates.limited(found, MOST)
            yield Choosable(source, kernel.module, tiling.region, default, tuple(limited))


def _attention(source: PlannedSource, function: str, made: CompiledSource) -> Iterator[Choosable]:
    """Attention of a function, for few queries and for many."""
    kernels = {each.schedule: each for each in made.kernels if each.module == function and each.schedule in ATTENTIONS}
    best = [name for name in kernels if WORSE_ATTENTION.get(name) not in kernels]
    found = [
        candidate
        for name in best
        if (tiling := kernels[name].tiling) is not None
        for candidate in tunecandidates.candidates(tiling.kind, name, dict(tiling.tile))
    ]
    if found:
        limited = tunecandidates.limited(found, MOST)
        yield Choosable(source, function, 0, Candidate(_AS_IT_IS), tuple(limited), attention=True)


def _chosen(found: Sequence[Choosable], names: Sequence[str], spoken: Iterable[str]) -> list[Choosable]:
    left = f"; left alone, since aot.toml has tables for them: {', '.join(spoken)}" if spoken else ""
    for name in names:
        if not any(name in (each.function, each.name) for each in found):
            known = ", ".join(dict.fromkeys(each.name for each in found)) or "none"
            raise UsageError(
                f"no function '{name}' has something to tune; those that have: {known}{left}",
                hint="`aot build -v` shows regions and schedules",
            )
    if not found:
        raise UsageError(
            f"no function here has something to tune (GPU code of tensor-level functions has){left}",
            hint="`aot build -v` shows regions and schedules",
        )
    return [each for each in found if not names or each.function in names or each.name in names]


def folder(request: TuneRequest) -> Path:
    """Where settings of the sources lie, or would."""
    folders = plan.folders(request.sources)
    return configfiles.place(folders) or folders[0]
