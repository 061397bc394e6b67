"""The candidates of one region: built as sources of one package, called, compared with the default, and timed in turns.

In: a Course (a function and its extents), candidates. Out: Times; notes about candidates that cannot be built, die, or
give other results.

>>> run(course, candidates, None, Silent()).medians                              # doctest: +SKIP
{Candidate(schedule='long-row', sizes=()): 1.2e-05}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aot import codec, fileset, job, pipeline, scratch, tunedfile, verify
from aot.errors import AotError
from aot.plan import PlannedSource
from aot.report import Reporter
from aot.tunecandidates import Candidate
from aot.verifying import job as calls
from aot.verifying.installed import Installed, installed
from aot.verifying.job import RaceReport, Seconds, Sizes, VerifyJob

LIMIT_S = 60.0
"""Seconds for the calls of all candidates: one that never ends is left out, and the others begin again."""
_DEFAULT = "c0"
"""Source of the function as it is; the others are c1, c2, …"""


@dataclass(frozen=True)
class Course:
    """What is measured."""

    source: PlannedSource
    function: str
    region: int
    dims: tuple[str, ...]
    ranges: tuple[str, ...]
    seed: int


class Asked(Protocol):
    """Extents and values, of one function or of all."""

    @property
    def dims(self) -> tuple[str, ...]: ...
    @property
    def ranges(self) -> tuple[str, ...]: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Times:
    """What was found."""

    default: float
    """Seconds per call, as all others."""
    medians: Mapping[Candidate, float]
    notes: Mapping[Candidate, str]
    """Why a candidate has no time."""
    shapes: str


def run(course: Course, candidates: Sequence[Candidate], jobs: int | None, tell: Reporter) -> Times:
    """Builds and measures; AotError when that fails for the function as it is."""
    named = {f"c{number}": each for number, each in enumerate(candidates, 1)}
    with scratch.folder("tune") as place:
        notes = _build(course, named, place, jobs, tell)
        names = [_DEFAULT, *(name for name in named if name not in notes)]
        found = installed(str(place / "dist"), place / "package")
        medians, refused, sizes = _measured(course, found, names, place)
    notes |= refused
    extents = " ".join(
        f"{letter}={extent}" for letter, extent in dict(zip(sizes.letters, sizes.extents, strict=True)).items()
    )
    return Times(
        default=medians.pop(_DEFAULT),
        medians={named[name]: median for name, median in medians.items()},
        notes={named[name]: note for name, note in notes.items()},
        shapes=extents or "its own extents",
    )


def _build(
    course: Course, named: Mapping[str, Candidate], place: Path, jobs: int | None, tell: Reporter
) -> dict[str, str]:
    """Builds a package of all that can be built; why others cannot."""
    notes: dict[str, str] = {}
    while True:
        left = {name: each for name, each in named.items() if name not in notes}
        folder = place / "kernels"
        for old in fileset.make_folder(folder).iterdir():
            fileset.remove(old)
        fileset.write_tree(_files(course, left), folder)
        request = pipeline.BuildRequest(
            (str(folder),), archs="native", ptx=False, name="tuned", jobs=jobs,
            out=str(place / "dist"), work=str(place / "build"),
        )  # fmt: skip
        try:
            pipeline.build(request, tell)
        except AotError:
            failed = _failures([_DEFAULT, *left], place / "build" / "objects")
            if not failed or _DEFAULT in failed:
                raise
            notes |= failed
        else:
            return notes


def _failures(names: Sequence[str], objects: Path) -> dict[str, str]:
    """What the compiler said, by source."""
    found = {name: job.read_failure(objects / name) for name in names}
    return {name: f"not built: {each.message.splitlines()[0]}" for name, each in found.items() if each is not None}


def _files(course: Course, named: Mapping[str, Candidate]) -> dict[str, bytes]:
    """The folder of sources: copies of one, and a table for each."""
    file, own = course.source.file, course.source
    lines = ["edition = 1"]
    files: dict[str, bytes] = {}
    for name in (_DEFAULT, *named):
        files[f"{name}{Path(file.path).suffix}"] = file.data
        if file.transform:
            files[f"{name}.transform.mlir"] = fileset.read_file(Path(file.transform))
        lines += [f"[source.{name}]", f'accumulate = "{own.accumulate}"']
        lines += [f'precision = "{own.precision}"', f'fully-masked = "{own.fully_masked}"']
        # Texts of JSON are texts of TOML.
        lines += [f"passes = {json.dumps(own.passes)}"] if own.passes else []
        if name in named:
            lines.append(tunedfile.header(name, course.function, course.region))
            lines += [f'schedule = "{named[name].schedule}"'] if named[name].schedule else []
            lines += [f"{size} = {number}" for size, number in named[name].sizes]
    return {**files, "aot.toml": "\n".join(lines).encode()}


def _measured(
    course: Course, found: Installed, names: Sequence[str], place: Path
) -> tuple[dict[str, float], dict[str, str], Sizes]:
    """Seconds by source; why others have none; the extents."""
    full = [f"{name}.{course.function}" for name in names]
    chosen = verify.chosen_functions(found, full)
    todo = sizes_job(found, full[:1], place / "sizes", course)
    (sizes,) = verify.run_children(todo, chosen[:1], Sizes, lambda _, note: Sizes(note=note, failed=True))
    if sizes.note:
        raise AotError(f"{course.source.file.name}.{course.function} cannot be timed: {sizes.note}")
    race = dataclasses.replace(todo, folder=str(place / "race"), functions=tuple(full), mode=calls.RACE, sizes=(sizes,))
    reports = verify.run_children(race, chosen, RaceReport, lambda _, note: RaceReport(note), LIMIT_S)
    refused = {name: report.note for name, report in zip(names, reports, strict=True) if report.note}
    result = place / "race" / calls.SECONDS
    if _DEFAULT in refused or not result.is_file():
        why = refused.get(_DEFAULT, "the process that measures ended")
        raise AotError(f"{course.source.file.name}.{course.function} cannot be timed: {why}")
    medians = codec.decode(fileset.read_file(result), Seconds).medians
    return dict(zip([name for name in names if name not in refused], medians, strict=True)), refused, sizes


def sizes_job(found: Installed, functions: Sequence[str], folder: Path, asked: Asked) -> VerifyJob:
    """Asks functions of a package for their extents and letters, on the GPU."""
    return VerifyJob(
        folder=str(folder),
        path=found.path,
        package=found.package,
        against=verify.HOST,
        functions=tuple(functions),
        dims=asked.dims,
        ranges=asked.ranges,
        seed=asked.seed,
        where="gpu",
        mode=calls.SIZE,
    )
