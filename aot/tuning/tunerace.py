"""The candidates of one region: built, called, compared with the default, timed roughly, and the best of them in turns.

In: a Course (a function and its extents), candidates. Out: Times, with the one that is really faster; notes about
candidates that cannot be built, die, do not end, or give other results.

>>> run(course, candidates, Silent()).fastest                                    # doctest: +SKIP
Candidate(schedule='long-row', sizes=())
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aot import codec, fileset
from aot.commands import bench, verify
from aot.engine import scratch
from aot.errors import AotError
from aot.reporting.report import Reporter
from aot.tuning import tunebuild, tunecandidates
from aot.tuning.tunebuild import DEFAULT, Course
from aot.tuning.tunecandidates import Candidate
from aot.verifying import children
from aot.verifying import job as calls
from aot.verifying.children import Watch
from aot.verifying.installed import Installed, installed
from aot.verifying.job import Rounds, Sizes, Tried, VerifyJob

PATIENCE_S = 30.0
"""Seconds for the calls of one candidate: one that never ends is left out."""
NEAR, FINALISTS = 1.1, 4
"""Candidates whose rough time is at most that of the default, times NEAR, race against it: so many at most."""
RACE_S, LEAST_S = 10.0, 15.0
"""Seconds that a race takes at most, and that calls of candidates have at least, together."""
TIE, MOSTLY = 0.02, 0.75
"""The fastest gains that share of the default's time, and is faster in that share of the rounds: less is chance."""


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
    fastest: Candidate | None
    """None: nothing is faster than the default."""


@dataclass(frozen=True)
class Measured:
    """Seconds per call, by source."""

    seconds: Mapping[str, float]
    """From a few calls of all that agree with the default, and of that itself."""
    rounds: Mapping[str, tuple[float, ...]]
    """Of the default and the best others, in turns."""
    notes: Mapping[str, str]
    """Why others have none."""
    sizes: Sizes


def run(course: Course, candidates: Sequence[Candidate], tell: Reporter) -> Times:
    """Builds and measures; AotError when that fails for the function as it is."""
    named = {f"c{number}": each for number, each in enumerate(tunecandidates.far_apart_first(candidates), 1)}
    with scratch.folder("tune") as place:
        notes = tunebuild.build(course, named, place, tell)
        built = {name: each for name, each in named.items() if name not in notes}
        tell.stage(f"measuring {course.what}: {len(built)} candidates")
        found = measured(course, installed(str(place / tunebuild.WHEELS), place / "package"), built, place, tell)
    notes |= found.notes
    medians = {**found.seconds, **{name: statistics.median(each) for name, each in found.rounds.items()}}
    extents = dict(zip(found.sizes.letters, found.sizes.extents, strict=True))
    return Times(
        default=medians.pop(DEFAULT),
        medians={named[name]: median for name, median in medians.items() if name not in notes},
        notes={named[name]: note for name, note in notes.items()},
        shapes=" ".join(f"{letter}={extent}" for letter, extent in extents.items()) or "its own extents",
        fastest=named.get(fastest(found.rounds)),
    )


def measured(course: Course, found: Installed, named: Mapping[str, Candidate], place: Path, tell: Reporter) -> Measured:
    """Calls the candidates of a package; AotError when the default cannot be timed.

    Some seconds there are in any case, so that what was built is not for nothing.
    """
    course = dataclasses.replace(course, until=max(course.until, time.monotonic() + LEAST_S))
    todo, sizes = _todo(course, found, [DEFAULT, *named], place)
    texts = ["as it is", *(each.text() for each in named.values())]
    seconds, refused = _tried(course, todo, found, tell, texts)
    rounds, broken = _raced(course, todo, seconds)
    return Measured(seconds, rounds, refused | broken, sizes)


def fastest(rounds: Mapping[str, Sequence[float]]) -> str:
    """Which one wins against the default; empty when none does."""
    default = rounds.get(DEFAULT, ())
    medians = {
        name: statistics.median(each)
        for name, each in rounds.items()
        if sum(mine < other for mine, other in zip(each, default, strict=True)) >= MOSTLY * len(default)
    }
    best = min(medians, key=medians.__getitem__, default="")
    return best if best and medians[best] <= (1 - TIE) * statistics.median(default) else ""


def _todo(course: Course, found: Installed, names: Sequence[str], place: Path) -> tuple[VerifyJob, Sizes]:
    """The job of trying all candidates; the extents."""
    full = tuple(f"{name}.{course.function}" for name in names)
    todo = sizes_job(found, full[:1], place / "sizes", course)
    chosen = verify.chosen_functions(found, full[:1])
    watch = Watch(PATIENCE_S, course.until)
    (sizes,) = children.run(todo, chosen, Sizes, lambda _, note: Sizes(note=note, failed=True), watch)
    if sizes.note:
        raise _untimed(course, sizes.note)
    return dataclasses.replace(todo, folder=str(place / "tries"), functions=full, mode=calls.TRY, sizes=(sizes,)), sizes


def _tried(
    course: Course, todo: VerifyJob, found: Installed, tell: Reporter, texts: Sequence[str]
) -> tuple[dict[str, float], dict[str, str]]:
    """Rough seconds of those that agree with the default, by source; why others do not take part."""

    def told(count: int) -> None:
        report = calls.read_report(Path(todo.folder), count - 1, Tried)
        came = "" if report is None else report.note or bench.duration(report.seconds)
        tell.progress(count, len(texts), f"{texts[count - 1]}: {came}")

    chosen = verify.chosen_functions(found, todo.functions)
    watch = Watch(PATIENCE_S, course.until, told)
    reports = children.run(todo, chosen, Tried, lambda _, note: Tried(note), watch)
    by_name = {each.source: report for each, report in zip(chosen, reports, strict=True)}
    if by_name[DEFAULT].note:
        raise _untimed(course, by_name[DEFAULT].note)
    seconds = {name: each.seconds for name, each in by_name.items() if not each.note}
    return seconds, {name: each.note for name, each in by_name.items() if each.note}


def _raced(
    course: Course, todo: VerifyJob, seconds: Mapping[str, float]
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Seconds of each round, of the default and those that may be faster, by source; which of them died, and how."""
    near = [name for name, each in seconds.items() if name != DEFAULT and each <= NEAR * seconds[DEFAULT]]
    racing = [DEFAULT, *sorted(near, key=seconds.__getitem__)[:FINALISTS]]
    notes: dict[str, str] = {}
    while len(racing) > 1:
        folder = Path(todo.folder).with_name(f"race{len(racing)}")
        full = tuple(f"{name}.{course.function}" for name in racing)
        race = dataclasses.replace(todo, folder=str(folder), functions=full, mode=calls.RACE, seconds=RACE_S)
        why = children.race(race, Watch(PATIENCE_S))
        if not why:
            rounds = codec.decode(fileset.read_file(folder / calls.ROUNDS), Rounds).seconds
            return dict(zip(racing, zip(*rounds, strict=True), strict=True)), notes
        turn = int((calls.turn(folder) or "0").split()[0])
        if not turn:
            raise _untimed(course, why)
        notes[racing.pop(turn)] = why
    return {}, notes


def _untimed(course: Course, why: str) -> AotError:
    return AotError(f"{course.name} cannot be timed: {why}")


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
