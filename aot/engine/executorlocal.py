"""Runs jobs on this machine, as forks of the foreman.

In: CompileJobs. Out: their folders filled, also when a job's process died. A job that may use more processors than its
own asks for them over a socket: so targets of one large source are compiled side by side when there is nothing else to
do, and never more processes work than there are slots.

>>> Local(Orders(slots=2)).slots
2
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aot import codec, fileset, process
from aot.engine import cachelevels, forked, job, memory, scratch, worker
from aot.engine.cachelevels import Levels
from aot.engine.executor import Orders, Running
from aot.engine.forked import Child, Outcome
from aot.engine.job import CompileJob, Failure, JobDone

USUAL_PEAK = 512 << 20
"""Memory that a job is expected to take when nothing is known about it, in bytes."""
TAKE, GIVE, YES, NO = b"+", b"-", b"y", b"n"


@dataclass
class Local:
    """Forks of this process, as many as there are slots."""

    orders: Orders
    slots: int = field(init=False)
    busy: int = field(default=0, init=False)
    """Slots taken: by jobs, and by the processes that help them."""
    jobs: int = field(default=0, init=False)
    rest: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    """What is undone at the end."""
    scratch: Path = field(init=False)
    """Folder for temporary files of jobs: what a stopped job leaves is removed with it."""
    levels: Levels = field(init=False)
    """The local cache, which is asked before anything is started."""
    loaded: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.slots = self.orders.slots
        self.levels = cachelevels.of(self.orders.cache, None)
        self.scratch = self.rest.enter_context(scratch.folder("build"))

    def prepare(self) -> None:
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.scratch)

    def _load(self) -> None:
        """Imports MLIR when the first source must be compiled; a build from the cache goes without."""
        if self.loaded:
            return
        self.loaded = True
        # Next to nothing of what is imported is garbage, and looking for it takes a fifth of the time.
        gc.disable()
        try:
            worker.prepare(self.orders.toolkit, self.orders.cuda)
            # What is there now stays: a fork's garbage collector need not write to those pages, and copy them.
            gc.freeze()
        finally:
            gc.enable()

    def admits(self, todo: CompileJob) -> bool:
        if self.busy >= self.slots:
            return False
        return self.jobs == 0 or memory.available_bytes() > (job.read_cost(todo).peak_bytes or USUAL_PEAK)

    def start(self, todo: CompileJob, before: Callable[[], None]) -> Running:
        done = worker.from_cache(todo, self.levels)
        if done is not None:
            return Ended(done)
        self._load()
        ours, theirs = socket.socketpair()

        def alone() -> None:
            before()
            ours.close()

        def compute(mark: forked.Mark) -> bytes:
            process.show_commands()
            levels = cachelevels.of(self.orders.cache, self.orders.remote)
            return codec.encode(worker.compile_job(todo, mark, Helpers(theirs), levels))

        child = forked.start(compute, group=True, before=alone)
        theirs.close()
        self.busy += 1
        self.jobs += 1
        return Forked(self, todo, child, ours, os.pidfd_open(child.pid))

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *raised: object) -> None:
        self.rest.close()


@dataclass
class Ended:
    """A job whose result was there already."""

    done: JobDone
    handle: int = field(default_factory=lambda: os.eventfd(1))

    def fileno(self) -> int:
        return self.handle

    def watched(self) -> list[tuple[Any, Callable[[], None]]]:
        return []

    def end(self) -> JobDone:
        self.stop()
        return self.done

    def stop(self) -> None:
        os.close(self.handle)


@dataclass
class Forked:
    """A job in a fork of this process."""

    owner: Local
    todo: CompileJob
    child: Child
    channel: socket.socket
    """Here it asks for processors for further processes."""
    handle: int
    """The process as a file."""
    helpers: int = 0

    def fileno(self) -> int:
        return self.handle

    def watched(self) -> list[tuple[Any, Callable[[], None]]]:
        return [(self.channel, self._answer)]

    def _answer(self) -> None:
        for word in self.channel.recv(64):
            granted = word == TAKE[0] and self.owner.busy < self.owner.slots
            change = -1 if word == GIVE[0] else int(granted)
            self.helpers += change
            self.owner.busy += change
            if word == TAKE[0]:
                self.channel.send(YES if granted else NO)

    def end(self) -> JobDone:
        outcome = self._finish()
        if outcome.data is None:
            _explain(self.todo, outcome)
        done = codec.decode(outcome.data, JobDone) if outcome.data is not None else JobDone(code=1)
        if any(note.startswith(cachelevels.DOWN) for note in done.notes):
            self.owner.orders = replace(self.owner.orders, remote=None)  # the next job need not find out, too
        if done.how == job.BUILT:
            job.write_cost(self.todo, job.Cost(outcome.peak_bytes, outcome.done.seconds))
        if not done.disk:
            fileset.write_file(Path(self.todo.output) / job.LOG, outcome.done.stderr)
        return done

    def stop(self) -> None:
        forked.stop(self.child)
        self._finish()

    def _finish(self) -> Outcome:
        outcome = forked.finish(self.child)
        os.close(self.handle)
        self.channel.close()
        self.owner.busy -= 1 + self.helpers
        self.owner.jobs -= 1
        return outcome


def _explain(todo: CompileJob, outcome: Outcome) -> None:
    """A child that died leaves an error all the same."""
    folder = Path(todo.output)
    if process.died(outcome.done):
        # It needs MLIR, which a build from the cache goes without.
        from aot import crashplace

        crash = process.crash(outcome.done, todo.path, outcome.stage or "start")
        # The foreman waits for it; of a process that was killed from outside the code says nothing.
        place = None if -outcome.done.returncode == signal.SIGKILL else crashplace.find(todo, outcome.stage)
        crash.diagnostics = () if place is None else (place,)
        job.write_failure(folder, job.failure(crash))
    else:
        job.write_failure(folder, Failure(job.BUG, f"{todo.path}: the worker failed\n{outcome.done.words()}"))


@dataclass(frozen=True)
class Helpers:
    """A job's way to ask the foreman for processors: the Crew of ``aot.engine.forked``."""

    channel: socket.socket

    def take(self) -> bool:
        self.channel.send(TAKE)
        return self.channel.recv(1) == YES

    def give(self) -> None:
        self.channel.send(GIVE)
