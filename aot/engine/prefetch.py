"""Reads what a build has kept while the rest of it is compiled: the driver has nothing else to do then.

In: jobs, and what reads the result of one. Out: what it read, in the order of the jobs; results of jobs that ran are
read when they have ended.

>>> Prefetch((), job.read_result).results({})
()
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from aot import fileset
from aot.engine import job
from aot.engine.job import CompileJob, DamagedError

Value = TypeVar("Value")


@dataclass
class Prefetch(Generic[Value]):
    """A thread that reads, once it has begun."""

    jobs: Sequence[CompileJob]
    read: Callable[[CompileJob], Value]
    _kept: dict[str, Value] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins to read: there is something to wait for."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        there = [each for each in self.jobs if (Path(each.output) / job.RESULT).is_file()]
        for each in there:
            try:
                self._kept[each.name] = self.read(each)
            except Exception:
                # Of another version of aot, or being written: its job runs now. What is wrong with it for all that,
                # whatever it is, is raised where it is read again.
                self._kept.pop(each.name, None)

    def results(self, done: Container[str]) -> tuple[Value, ...]:
        """What all jobs left; ``done`` are those that ran. After a DamagedError the next build does such jobs again."""
        if self._thread is not None:
            self._thread.join()
        kept = self._kept
        return tuple(
            kept[each.name] if each.name in kept and each.name not in done else self._now(each) for each in self.jobs
        )

    def _now(self, todo: CompileJob) -> Value:
        try:
            return self.read(todo)
        except DamagedError:
            fileset.remove(Path(todo.output) / job.RESULT)
            raise
