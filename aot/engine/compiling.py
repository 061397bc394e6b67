"""Compiles the sources of a plan side by side: one ninja edge per source, done by a foreman (``aot.engine.foreman``).

In: jobs. Out: what was done; or one error that shows every source that failed.

>>> run(jobs, floor, reporter)   # doctest: +SKIP
{}
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aot import codec, fileset, process, resources
from aot.engine import foreman, foremanprocess, job, ninjafile
from aot.engine.engineoptions import LOCAL
from aot.engine.executor import Orders
from aot.engine.foreman import Event
from aot.engine.job import CompileJob, Failure
from aot.engine.stamp import Stamp
from aot.errors import AotError, DiskError, ToolMissing, together
from aot.process import Companion, Completed
from aot.reporting.report import Reporter

FINISHED, STOPPED, FAILED = "ninja: no work to do.", "ninja: build stopped", "FAILED: "


class WorkerError(Exception):
    """A worker met an exception that is no AotError: a bug of ours, shown with its own traceback."""

    def __init__(self, traceback_text: str) -> None:
        super().__init__("a compile worker failed")
        self.traceback_text = traceback_text


@dataclass(frozen=True)
class Floor:
    """Where the work is done."""

    work: Path
    orders: Orders
    lock: int
    """File by which the work folder is held: as long as any process of the build has it open."""


@dataclass(frozen=True)
class Done:
    """A source whose job ran."""

    how: str
    """``built`` or ``cached``."""
    seconds: float


@dataclass
class Ledger:
    """What the foreman has told so far; it tells in a thread."""

    reporter: Reporter
    jobs: dict[str, CompileJob]
    total: int
    done: dict[str, Done] = field(default_factory=dict)
    failed: int = 0
    disk: list[str] = field(default_factory=list)
    fatal: Failure | None = None
    slots: int = 0
    ready: threading.Event = field(default_factory=threading.Event)
    """Set when the foreman can work, or never will."""

    def hear(self, line: str) -> None:
        """One line of the foreman."""
        event = foreman.decode(line)
        if event.state == foreman.START:
            self.reporter.started(self.jobs[event.source].path)
        elif event.state == foreman.DONE:
            self._ended(event)
        elif event.state == foreman.DISK:
            self.disk.append(event.text)
        elif event.state == foreman.NOTE:
            self.reporter.note(event.text)
        elif event.state in (foreman.READY, foreman.FATAL):
            self.slots = event.slots
            self.fatal = codec.decode(event.text.encode(), Failure) if event.text else None
            self.ready.set()

    def _ended(self, event: Event) -> None:
        todo = self.jobs[event.source]
        if event.code == 0:
            self.done[event.source] = Done(event.how, event.seconds)
        else:
            self.failed += 1
        for text in _commands(todo):
            self.reporter.detail(text)
        self.reporter.progress(len(self.done) + self.failed, self.total, todo.path)


def run(
    jobs: Sequence[CompileJob],
    floor: Floor,
    reporter: Reporter,
    meanwhile: Callable[[], None] = lambda: None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Done]:
    """Has all jobs done whose results are not there yet; a failing source does not stop the others.

    ``meanwhile`` is called when there is something to do, and somebody has begun to prepare for it, and ``check`` each
    time that a job has ended: what it raises ends the others.
    """
    build_file = _build_file([_edge(each, floor.work) for each in sorted(jobs, key=_weight, reverse=True)], floor.work)
    todo = process.run([ninja(), "-n", "-f", str(build_file)], cwd=floor.work)
    said = todo.stdout.decode("utf-8", "replace")
    if FINISHED in said:
        return {}
    ledger = Ledger(reporter, {each.name: each for each in jobs}, said.count("\n") or 1)
    with foremanprocess.foreman_in(floor.work, floor.orders, ledger.hear, ledger.ready.set, (floor.lock,)) as beside:
        meanwhile()
        done = _ninja(build_file, floor, ledger, check)
    _check(jobs, ledger, done, beside)
    return ledger.done


def ninja() -> str:
    """Path of ninja: of its Python package, else of this environment, else of the system."""
    spec = importlib.util.find_spec("ninja")
    folders = [str(Path(place) / "data" / "bin") for place in (spec.submodule_search_locations or ())] if spec else []
    folders += [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    found = shutil.which("ninja", path=os.pathsep.join(folders))
    if found is None:
        raise ToolMissing("ninja was not found", hint="install it with: python -m pip install 'aot[build]'")
    return os.path.abspath(found)


def _build_file(edges: Sequence[ninjafile.Edge], work: Path) -> Path:
    """Writes what ninja reads, if other edges stand there."""
    made_from = f"{sys.executable} {resources.digest(resources.build_rules())} {edges}"
    stamp = Stamp(work / "rules.json", hashlib.sha256(made_from.encode()).hexdigest())
    file = work / "build.ninja"
    if stamp.read(str) is None:
        fileset.write_file(file, ninjafile.build_file(edges, str(work)).encode())
        stamp.write("", [file])
    return file


def _edge(each: CompileJob, work: Path) -> ninjafile.Edge:
    description = work / "jobs" / f"{each.name}.json"
    fileset.write_file(description, job.encode(each))
    dumped = (str(Path(each.dump) / job.FIRST_DUMP),) if each.dump else ()
    return ninjafile.Edge(each.path, str(description), str(Path(each.output) / job.RESULT), dumped)


def _weight(each: CompileJob) -> tuple[float, int]:
    """The longest first: the end of a build is short when small jobs are left for it."""
    return job.read_cost(each).seconds, each.bytes


def _ninja(build_file: Path, floor: Floor, ledger: Ledger, check: Callable[[], None]) -> Completed | None:
    """Runs the edges; None when there is nobody to do their jobs."""
    parallel = floor.orders.slots
    if floor.orders.executor != LOCAL:
        ledger.ready.wait()
        parallel = parallel or ledger.slots
    if ledger.fatal is not None or not parallel:
        return None
    command = [ninja(), "-f", str(build_file), "-j", str(parallel), "-k", "0"]

    def hear(line: str) -> None:
        check()
        _line(line, ledger)

    return process.follow(command, hear, cwd=floor.work, pass_fds=(floor.lock,))


def _line(line: str, ledger: Ledger) -> None:
    """What ninja says beside the edges that are done or failed, of which the foreman tells more."""
    if not line.startswith(("[", STOPPED, FAILED, f"{shlex.quote(sys.executable)} {ninjafile.OPTIONS} ")):
        ledger.reporter.detail(line)


def _check(jobs: Sequence[CompileJob], ledger: Ledger, done: Completed | None, beside: Companion) -> None:
    """Raises the one error, or all of them together."""
    if ledger.fatal is not None:
        raise job.as_error(ledger.fatal)
    failures = [found for found in (job.read_failure(Path(each.output)) for each in jobs) if found is not None]
    if done is not None and done.returncode == 0 and not failures:
        return
    bugs = [found.message for found in failures if found.kind == job.BUG]
    if bugs:
        raise WorkerError("\n".join(bugs))
    problems = [job.as_error(found) for found in failures]
    hint = "free some space, or choose another folder with --work"
    problems += [DiskError(each, hint=hint) for each in dict.fromkeys(ledger.disk)]
    if not problems:
        words = beside.words or (done.stdout.decode("utf-8", "replace").strip() if done else "")
        raise AotError(f"the build's own processes failed\n{words}", hint="build again")
    raise together(problems, f"{len(problems)} sources failed")


def _commands(todo: CompileJob) -> Iterator[str]:
    """The commands that a job ran, and what they said."""
    file = Path(todo.output) / job.LOG
    if file.is_file():
        yield from fileset.read_file(file).decode("utf-8", "replace").splitlines()
