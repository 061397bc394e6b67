"""Processes that call a package, one after the other: what kills one is reported, and the next one goes on behind it.

In: a VerifyJob, the functions it names. Out: a report for each of them.

>>> run(todo, chosen, Sizes, lambda _, note: Sizes(note=note))                   # doctest: +SKIP
[Sizes(extents=(1024, 1024), letters=('m', 'n'), note='', failed=False)]
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aot import process
from aot.errors import AotError
from aot.process import Completed
from aot.verifying import job
from aot.verifying.job import VerifyJob
from aot.verifying.signature import Signature

Report = TypeVar("Report")
OVER = "the time was up"
_CHILD = "aot.verifying.child"


def _nothing(count: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Watch:
    """How long processes may take, and who hears how far they are."""

    patience: float | None = None
    """Seconds for one function, once it is called; one that takes longer is left out, as if it had died. None: any."""
    until: float | None = None
    """When all must have ended, by ``time.monotonic``: functions that are left over then are not called."""
    told: Callable[[int], None] = _nothing
    """Is told how many functions have a report, when one more has."""

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.monotonic() > self.until


@dataclass
class _Look:
    """What is seen of a process by the files that it writes."""

    watch: Watch
    folder: Path
    count: int
    """Reports that are there."""
    step: str = ""
    since: float = field(default_factory=time.monotonic)
    """When the last step began."""

    def look(self) -> None:
        """Tells of new reports."""
        while job.has_report(self.folder, self.count):
            self.count += 1
            self.watch.told(self.count)

    def why_stop(self) -> str:
        """Empty as long as it need not."""
        self.look()
        step = f"{self.count} {job.turn(self.folder)}"
        begun = job.was_started(self.folder, self.count) or job.turn(self.folder)
        if step != self.step or not begun:
            self.step, self.since = step, time.monotonic()
        if self.watch.is_over:
            return OVER
        patience = self.watch.patience
        if patience is not None and time.monotonic() - self.since > patience:
            return f"it did not end within {patience:g} seconds"
        return ""


def run(
    todo: VerifyJob,
    chosen: Sequence[Signature],
    kind: type[Report],
    died: Callable[[Signature, str], Report],
    watch: Watch | None = None,
) -> list[Report]:
    """Runs processes until every function has a report: one that kills its process is left out the next time."""
    watch = watch or Watch()
    folder = Path(todo.folder)
    reports: list[Report] = []
    while len(reports) < len(chosen):
        done = _child(dataclasses.replace(todo, first=len(reports)), watch)
        while len(reports) < len(chosen) and (report := job.read_report(folder, len(reports), kind)) is not None:
            reports.append(report)
        if len(reports) < len(chosen) and watch.is_over:
            reports += [died(each, OVER) for each in chosen[len(reports) :]]
        elif len(reports) < len(chosen):
            signature = chosen[len(reports)]
            if not job.was_started(folder, len(reports)):
                raise AotError(f"the process that calls '{todo.package}' failed\n{done.words()}".rstrip())
            reports.append(died(signature, job.lost_by(folder, len(reports)) or _last_words(done)))
    return reports


def race(todo: VerifyJob, watch: Watch) -> str:
    """Has functions take turns, which leaves ``job.ROUNDS``; why it has not, and whose turn it was is ``job.turn``."""
    done = _child(todo, watch)
    if (Path(todo.folder) / job.ROUNDS).is_file():
        return ""
    return job.lost_by(Path(todo.folder), 0) or _last_words(done)


def _child(todo: VerifyJob, watch: Watch) -> Completed:
    """One process with a job in its folder; raises what it says is impossible."""
    folder = Path(todo.folder)
    job.write(folder, job.JOB, todo)
    seen = _Look(watch, folder, todo.first)
    done = process.watch([sys.executable, "-m", _CHILD, folder], seen.why_stop)
    seen.look()
    job.raise_failure(folder)
    return done


def _last_words(done: Completed) -> str:
    last = done.words().splitlines()[-1:] or ["it said nothing"]
    return f"the process ended with {process.exit_text(done.returncode)} in this function: {last[0]}"
