"""Builds the candidates of a region: sources of one package, copies of the user's, each with a table of ``aot.toml``.

In: a Course, candidates by the name of their source. Out: a package of all that could be built in time; why others
are not in it.

>>> build(course, {"c1": Candidate("long-row")}, place, Silent())                # doctest: +SKIP
{}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aot import fileset, pipeline
from aot.engine import job
from aot.errors import AotError
from aot.plan import PlannedSource
from aot.reporting.report import Reporter, Silent
from aot.request import BuildRequest
from aot.tuning import tunedfile
from aot.tuning.tunecandidates import Candidate

DEFAULT = "c0"
"""Source of the function as it is; the others are c1, c2, …"""
OVER = "not built: the time was up"
WHEELS = "dist"
_WAVE = 2
"""Candidates for each processor that are compiled between two looks at the clock."""


@dataclass(frozen=True)
class Course:
    """What is measured."""

    source: PlannedSource
    function: str
    region: int
    """0: the function's attention, or its products."""
    dims: tuple[str, ...]
    ranges: tuple[str, ...]
    seed: int
    until: float
    """When all of it is to be over, by ``time.monotonic``."""
    jobs: int
    """Sources compiled at a time."""
    base: tuple[tuple[int, Candidate], ...] = ()
    """What was taken for other regions of the function: all candidates have it, and the default, too."""
    attention: bool = False
    """Whether it is attention in one kernel."""

    @property
    def name(self) -> str:
        return f"{self.source.file.name}.{self.function}"

    @property
    def what(self) -> str:
        part = "attention" if self.attention else "products"
        return f"{self.name}, {f'region {self.region}' if self.region else part}"


@dataclass(frozen=True)
class Told:
    """Tells of sources as what they are candidates for, as pieces of one stage."""

    tell: Reporter
    names: Mapping[str, str]
    """By the name of the source."""
    before: int
    """Pieces that are done."""

    @property
    def verbose(self) -> bool:
        return self.tell.verbose

    def stage(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...

    def started(self, what: str) -> None:
        self.tell.started(self.names[Path(what).stem])

    def progress(self, done: int, total: int, what: str) -> None:
        self.tell.progress(self.before + done, len(self.names), self.names[Path(what).stem])

    def detail(self, text: str) -> None:
        self.tell.detail(text)


def build(course: Course, named: Mapping[str, Candidate], place: Path, tell: Reporter) -> dict[str, str]:
    """Leaves a wheel in ``place / WHEELS``; candidates that are not in it, and why. AotError without the default.

    What is compiled after half of the time must wait for another day: the rest of it is for measuring.
    """
    half = (time.monotonic() + course.until) / 2
    texts = {DEFAULT: "as it is", **{name: each.text() for name, each in named.items()}}
    tell.stage(f"compiling {course.what}: {len(named)} candidates")
    notes: dict[str, str] = {}
    wave = _WAVE * course.jobs
    for first in range(0, len(named), wave):
        if first and time.monotonic() > half:
            notes |= dict.fromkeys([*named][first:], OVER)
            break
        todo = {name: named[name] for name in [*named][: first + wave] if name not in notes}
        notes |= _compiled(course, todo, place, Told(tell, texts, first + 1 if first else 0))
    fileset.write_tree(
        _files(course, {name: each for name, each in named.items() if name not in notes}), _sources(place)
    )
    pipeline.build(_request(course, place), Silent())
    return notes


def _compiled(course: Course, todo: Mapping[str, Candidate], place: Path, tell: Reporter) -> dict[str, str]:
    """What the compiler says against some of the candidates."""
    fileset.write_tree(_files(course, todo), _sources(place))
    try:
        pipeline.compiled(_request(course, place), tell)
    except AotError:
        failed = _failures([DEFAULT, *todo], place / "build" / "objects")
        if not failed or DEFAULT in failed:
            raise
        return failed
    return {}


def _sources(place: Path) -> Path:
    return place / "kernels"


def _request(course: Course, place: Path) -> BuildRequest:
    return BuildRequest(
        (str(_sources(place)),), archs="native", ptx=False, name="tuned", jobs=course.jobs, only=(course.function,),
        out=str(place / WHEELS), work=str(place / "build"),
    )  # fmt: skip


def _failures(names: list[str], objects: Path) -> dict[str, str]:
    """What the compiler said, by source."""
    found = {name: job.read_failure(objects / name) for name in names}
    return {name: f"not built: {each.message.splitlines()[0]}" for name, each in found.items() if each is not None}


def _files(course: Course, named: Mapping[str, Candidate]) -> dict[str, bytes]:
    """The folder of sources: copies of one, and tables for each."""
    file, own = course.source.file, course.source.settings
    lines = ["edition = 1"]
    files: dict[str, bytes] = {}
    for name in (DEFAULT, *named):
        files[f"{name}{Path(file.path).suffix}"] = file.data
        if file.transform:
            files[f"{name}.transform.mlir"] = fileset.read_file(Path(file.transform))
        lines += [f"[source.{name}]", f'accumulate = "{own.accumulate}"']
        lines += [f'precision = "{own.precision}"', f'fully-masked = "{own.fully_masked}"']
        # Texts of JSON are texts of TOML.
        lines += [f"passes = {json.dumps(own.passes)}"] if own.passes else []
        for region, each in [*course.base, *([(course.region, named[name])] if name in named else [])]:
            lines += [tunedfile.header(name, course.function, region), *tunedfile.values(each)]
    return {**files, "aot.toml": "\n".join(lines).encode()}
