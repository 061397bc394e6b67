"""``aot tune``: which schedule and sizes are fastest on the GPU of this machine?

In: sources, functions, extents. Out: Tuned: for each function and region what was tried, its time, and the picks, which
``aot.tuned.toml`` keeps beside the sources and `aot build` takes. A function's candidates are sources of one package,
each with a table of ``aot.toml``; what the compiler refuses, or gives other results than the default, is left out.

>>> tune(TuneRequest(("softmax.mlir",), dims=("m=4096",))).picks[0].candidate.text()     # doctest: +SKIP
'row: threads 64, rows 1, vectors 4, width 4'
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import driver, fileset, pipeline
from aot.commands import bench, verify
from aot.engine import engineoptions, scratch
from aot.errors import AotError, UsageError
from aot.reporting.report import Reporter, number, of_caller
from aot.settings import configfiles
from aot.settings.wishes import FAST
from aot.tuning import tunedfile, tunerace
from aot.tuning.tunebuild import Course
from aot.tuning.tunechoice import Choosable, TuneRequest, choosable, folder
from aot.tuning.tunedfile import Pick
from aot.verifying import children
from aot.verifying.installed import installed
from aot.verifying.job import Sizes

COLUMNS = ("function", "region", "candidate", "median", "of default", "")
OFFERED = ("function", "region", "candidate", "")
DEFAULT, TAKEN, WITH_OTHERS = "default", "taken", "default, with what was taken above"


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


def tune(request: TuneRequest, reporter: Reporter | None = None) -> Tuned:
    """Measures candidates as long as there is time; UsageError where no GPU is."""
    until = time.monotonic() + request.budget
    tell = of_caller(reporter)
    gpu = next((device.name for device in driver.ask().devices), "")
    if not gpu:
        raise UsageError("there is no usable GPU here to measure on", hint="`aot doctor` says why; --list needs none")
    if request.archs:
        raise UsageError("--archs is for --list: what is measured is built for the GPU that is here")
    regions = choosable(request, tell)
    if request.dims or request.ranges:
        _check_names(request, [region.name for region in regions], tell)
    measured = _all_measured(regions, request, until, tell)
    if not any(each.worked for each in measured):
        raise next(each.problem for each in measured if each.problem)
    failed = {(each.region.source.file.name, each.region.function) for each in measured if not each.worked}
    functions = dict.fromkeys((each.region.source.file.name, each.region.function) for each in measured)
    return Tuned(
        gpu,
        rows=tuple(row for each in measured for row in each.rows),
        picks=tuple(each.pick for each in measured if each.pick),
        tuned=tuple(each for each in functions if each not in failed),
    )


@dataclass(frozen=True)
class _Measured:
    """What came of a region."""

    region: Choosable
    rows: tuple[Row, ...] = ()
    pick: Pick | None = None
    problem: AotError | None = None
    """Why it could not be measured."""

    @property
    def worked(self) -> bool:
        return self.problem is None


def _all_measured(regions: Sequence[Choosable], request: TuneRequest, until: float, tell: Reporter) -> list[_Measured]:
    """One region after the other, each with what was taken for those of its function before; they share the time."""
    found: list[_Measured] = []
    jobs = request.jobs or engineoptions.processors(os.environ)
    for count, region in enumerate(regions):
        now = time.monotonic()
        before = [each for each in found if each.region.name == region.name]
        if not all(each.worked for each in before):
            continue
        course = Course(
            region.source, region.function, region.region, request.dims, request.ranges, request.seed,
            until=now + (until - now) / (len(regions) - count),
            jobs=jobs,
            base=tuple((each.region.region, each.pick.candidate) for each in before if each.pick),
            attention=region.attention,
        )  # fmt: skip
        try:
            if now > until:
                raise AotError(children.OVER, hint="give it more with --budget, or name functions with --function")
            found.append(_measured(region, course, tell))
        except AotError as problem:
            why = problem.message.splitlines()[0]
            tell.note(f"{course.what} is left out: {why}")
            row = Row(region.name, region.region, region.default.text(), note=why)
            found.append(_Measured(region, (row,), problem=problem))
    return found


def _measured(region: Choosable, course: Course, tell: Reporter) -> _Measured:
    """Times of a region's candidates, and the one to take; AotError when the default has none."""
    times = tunerace.run(course, region.candidates, tell)
    best = times.fastest
    row: Callable[..., Row] = functools.partial(Row, region.name, region.region)
    rows = [row(region.default.text(), times.default, WITH_OTHERS if course.base else DEFAULT)]
    for candidate in region.candidates:
        note = TAKEN if candidate == best else times.notes.get(candidate, "")
        rows.append(row(candidate.text(), times.medians.get(candidate), note))
    if best is None:
        return _Measured(region, tuple(rows))
    now, before = bench.duration(times.medians[best]), bench.duration(times.default)
    remark = f"{now} instead of {before} ({times.shapes})"
    return _Measured(region, tuple(rows), Pick(region.source.file.name, region.function, region.region, best, remark))


def _check_names(request: TuneRequest, functions: Sequence[str], tell: Reporter) -> None:
    """What --dims and --range name is in some function, though not in all."""
    with scratch.folder("tune") as place:
        build = pipeline.BuildRequest(
            request.sources, archs="native", ptx=False, name="tuned", jobs=request.jobs, out=str(place / "dist"),
            work=str(place / "build"), schedules=FAST, tuned=False,
        )  # fmt: skip
        pipeline.build(build, tell)
        found = installed(str(place / "dist"), place / "package")
        chosen = verify.chosen_functions(found, tuple(dict.fromkeys(functions)))
        todo = tunerace.sizes_job(found, [each.full_name for each in chosen], place / "sizes", request)
        verify.check_names(todo, chosen)
        sizes = children.run(todo, chosen, Sizes, lambda _, note: Sizes(note=note, failed=True))
        verify.check_letters(request.dims, {letter for each in sizes for letter in each.letters})


def offer(request: TuneRequest, reporter: Reporter | None = None) -> Tuned:
    """What would be tried, unmeasured, whatever the extents; UsageError where some are given."""
    if request.dims or request.ranges:
        raise UsageError(
            "--dims and --range are for measuring: what --list shows does not depend on them", hint="leave them out"
        )
    rows = [
        Row(region.name, region.region, each.text(), note=DEFAULT if each == region.default else "")
        for region in choosable(request, reporter)
        for each in (region.default, *region.candidates)
    ]
    return Tuned("", tuple(rows), (), ())


def write(found: Tuned, request: TuneRequest) -> Path:
    """Writes the picks beside the other settings of the sources; the file."""
    file = folder(request) / configfiles.TUNED_NAME
    before = fileset.read_file(file).decode() if file.is_file() else ""
    fileset.write_file(file, tunedfile.text(found.picks, before, found.gpu, found.tuned).encode())
    return file


def verdict(found: Tuned) -> str:
    """What was measured where, in one line."""
    regions = len({(row.function, row.region) for row in found.rows})
    if not found.gpu:
        return f"{len(found.rows) - regions} candidates of {number(regions, 'region')}, nothing measured"
    return f"{number(regions, 'region')} on {found.gpu}: {len(found.picks)} with something faster than the default"


def offered(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    """Columns and rows of a table of what was not measured."""
    return OFFERED, [[row.function, str(row.region or "-"), row.candidate, row.note] for row in rows]


def timed(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    """Columns and rows of a table of what was measured."""
    default: float | None = None
    cells = []
    for place, row in enumerate(rows):
        if not place or (rows[place - 1].function, rows[place - 1].region) != (row.function, row.region):
            default = row.median_s
        share = f"{row.median_s / default:.0%}" if row.median_s and default else "-"
        cells.append(
            [row.function, str(row.region or "-"), row.candidate, bench.duration(row.median_s), share, row.note]
        )
    return COLUMNS, cells
