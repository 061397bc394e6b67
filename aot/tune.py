"""``aot tune``: which schedule and sizes are fastest on the GPU of this machine?

In: sources, functions, extents. Out: Tuned: for each function and region what was tried, its time, and the picks, which
``aot.tuned.toml`` keeps beside the sources and `aot build` takes. A function's candidates are sources of one package,
each with a table of ``aot.toml``; what the compiler refuses, or gives other results than the default, is left out.

>>> tune(TuneRequest(("softmax.mlir",), dims=("m=4096",))).picks[0].candidate.text()     # doctest: +SKIP
'row: threads 64, rows 1, vectors 4, width 4'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import (
    bench,
    configfiles,
    driver,
    fileset,
    pipeline,
    plan,
    scratch,
    tunecandidates,
    tunedfile,
    tunerace,
    verify,
)
from aot.errors import AotError, UsageError
from aot.model import CompiledSource
from aot.plan import PlannedSource
from aot.report import Once, Reporter, Silent, number
from aot.tunecandidates import Candidate
from aot.tunedfile import Pick
from aot.tunerace import Course
from aot.verifying import options
from aot.verifying.installed import installed
from aot.verifying.job import Sizes
from aot.wishes import PRODUCTS, check_functions

COLUMNS = ("function", "region", "candidate", "median", "of default", "")
MOST = 16
"""Candidates of a region, at most."""
TIE = 0.02
"""What a candidate must gain, as a share of the default's time: less is chance."""
TENSOR = "tensor"
DEFAULT = "default"
_AS_IT_IS = "as it is"
"""Products have several kernels."""


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


@dataclass(frozen=True)
class Choosable:
    """A region, and what could be done with it."""

    source: PlannedSource
    function: str
    region: int
    """0: the function's products."""
    default: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def what(self) -> str:
        return f"region {self.region}" if self.region else "products"

    @property
    def name(self) -> str:
        return f"{self.source.file.name}.{self.function}"


@dataclass(frozen=True)
class Row:
    """One candidate of a region, the default first."""

    function: str
    region: int
    candidate: str
    median_s: float | None = None
    note: str = ""
    """Why it has no time; ``taken``; ``default``."""


@dataclass(frozen=True)
class Tuned:
    """What was found."""

    gpu: str
    rows: tuple[Row, ...]
    picks: tuple[Pick, ...]
    tuned: tuple[tuple[str, str], ...]
    """Sources and functions that were measured in full."""

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def choosable(request: TuneRequest, reporter: Reporter | None = None) -> tuple[Choosable, ...]:
    """Regions with candidates, as they are built without a word of the user's; needs no GPU when ``archs`` is given."""
    options.extents(request.dims)
    options.ranges(request.ranges)
    configfiles.load(_folder(request))
    with scratch.folder("tune") as place:
        build = pipeline.BuildRequest(
            request.sources,
            archs=request.archs or "native",
            ptx=False,
            jobs=request.jobs,
            work=str(place / "build"),
            tuned=False,
        )
        planned = {each.file.name: each for each in plan.plan(build).sources}
        with_tuned = plan.plan(dataclasses.replace(build, tuned=True)).sources
        compiled = pipeline.compiled(build, reporter)
    for made, source in zip(compiled, with_tuned, strict=True):
        check_functions(source.wishes, [each.name for each in made.functions if each.level == TENSOR])
    found = [each for made in compiled for each in _regions(planned[made.name], made)]
    spoken = tuple(f"{name}.{wish.function}" for name, each in planned.items() for wish in each.wishes)
    return tuple(_chosen(found, request.functions, dict.fromkeys(spoken)))


def tune(request: TuneRequest, reporter: Reporter | None = None) -> Tuned:
    """Measures all candidates; UsageError where no GPU is."""
    tell = Once(reporter or Silent())
    gpu = next((device.name for device in driver.ask().devices), "")
    if not gpu:
        raise UsageError("there is no usable GPU here to measure on", hint="`aot doctor` says why; --list needs none")
    if request.archs:
        raise UsageError("--archs is for --list: what is measured is built for the GPU that is here")
    regions = choosable(request, tell)
    if request.dims or request.ranges:
        _check_names(request, [region.name for region in regions], tell)
    rows: list[Row] = []
    picks: list[Pick] = []
    failed: dict[tuple[str, str], AotError] = {}
    for region in regions:
        key = (region.source.file.name, region.function)
        if key in failed:
            continue
        try:
            mine, pick = _measured(region, request, tell)
        except AotError as problem:
            why = problem.message.splitlines()[0]
            tell.note(f"{region.name} is left out: {why}")
            mine, pick, failed[key] = [Row(region.name, region.region, region.default.text(), note=why)], None, problem
        rows += mine
        picks += [pick] if pick else []
    if all(row.median_s is None for row in rows):
        raise next(iter(failed.values()))
    measured = dict.fromkeys((each.source.file.name, each.function) for each in regions)
    return Tuned(gpu, tuple(rows), tuple(picks), tuple(each for each in measured if each not in failed))


def _measured(region: Choosable, request: TuneRequest, tell: Reporter) -> tuple[list[Row], Pick | None]:
    """Times of a region's candidates, and the one to take; AotError when the default has none."""
    tell.stage(f"measuring {region.name}, {region.what}: {len(region.candidates)} candidates")
    course = Course(region.source, region.function, region.region, request.dims, request.ranges, request.seed)
    times = tunerace.run(course, region.candidates, request.jobs, tell)
    rows = [Row(region.name, region.region, region.default.text(), times.default, DEFAULT)]
    for candidate in region.candidates:
        note = times.notes.get(candidate, "")
        rows.append(Row(region.name, region.region, candidate.text(), times.medians.get(candidate), note))
    best = min(times.medians, key=times.medians.__getitem__, default=None)
    if best is None or times.medians[best] >= (1 - TIE) * times.default:
        return rows, None
    now, before = bench.duration(times.medians[best]), bench.duration(times.default)
    remark = f"{now} instead of {before} ({times.shapes})"
    rows = [dataclasses.replace(row, note="taken") if row.candidate == best.text() else row for row in rows]
    return rows, Pick(region.source.file.name, region.function, region.region, best, remark)


def _check_names(request: TuneRequest, functions: Sequence[str], tell: Reporter) -> None:
    """What --dims and --range name is in some function, though not in all."""
    with scratch.folder("tune") as place:
        build = pipeline.BuildRequest(
            request.sources, archs="native", ptx=False, name="tuned", jobs=request.jobs, out=str(place / "dist"),
            work=str(place / "build"), tuned=False,
        )  # fmt: skip
        pipeline.build(build, tell)
        found = installed(str(place / "dist"), place / "package")
        chosen = verify.chosen_functions(found, tuple(dict.fromkeys(functions)))
        todo = tunerace.sizes_job(found, [each.full_name for each in chosen], place / "sizes", request)
        verify.check_names(todo, chosen)
        sizes = verify.run_children(todo, chosen, Sizes, lambda _, note: Sizes(note=note, failed=True))
        verify.check_letters(request.dims, {letter for each in sizes for letter in each.letters})


def offer(request: TuneRequest, reporter: Reporter | None = None) -> Tuned:
    """What would be tried, unmeasured."""
    rows = [
        Row(region.name, region.region, each.text(), note=DEFAULT if each == region.default else "")
        for region in choosable(request, reporter)
        for each in (region.default, *region.candidates)
    ]
    return Tuned("", tuple(rows), (), ())


def _regions(source: PlannedSource, made: CompiledSource) -> Iterator[Choosable]:
    """Regions of functions for which ``aot.toml`` does not speak; a region's first kernel is its best one."""
    spoken = {wish.function for wish in source.wishes}
    names = [each.name for each in made.functions if each.level == TENSOR and each.name not in spoken]
    seen: set[tuple[str, int]] = set()
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
            f"no function here has something to tune{left}", hint="`aot build -v` shows regions and schedules"
        )
    return [each for each in found if not names or each.function in names or each.name in names]


def _folder(request: TuneRequest) -> Path:
    """Where settings of the sources lie, or would."""
    folders = plan.folders(request.sources)
    return configfiles.place(folders) or folders[0]


def write(found: Tuned, request: TuneRequest) -> Path:
    """Writes the picks beside the other settings of the sources; the file."""
    file = _folder(request) / configfiles.TUNED_NAME
    before = fileset.read_file(file).decode() if file.is_file() else ""
    fileset.write_file(file, tunedfile.text(found.picks, before, found.gpu, found.tuned).encode())
    return file


def verdict(found: Tuned) -> str:
    """What was measured where, in one line."""
    regions = len({(row.function, row.region) for row in found.rows})
    if not found.gpu:
        return f"{len(found.rows) - regions} candidates of {number(regions, 'region')}, nothing measured"
    return f"{number(regions, 'region')} on {found.gpu}: {len(found.picks)} with something faster than the default"


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Rows of the table for COLUMNS."""
    default: float | None = None
    cells = []
    for place, row in enumerate(rows):
        if not place or (rows[place - 1].function, rows[place - 1].region) != (row.function, row.region):
            default = row.median_s
        share = f"{row.median_s / default:.0%}" if row.median_s and default else "-"
        cells.append(
            [row.function, str(row.region or "-"), row.candidate, bench.duration(row.median_s), share, row.note]
        )
    return cells
