"""Reads what a build has kept while the rest of it is compiled: the driver has nothing else to do then.

In: jobs. Out: their CompiledSources, in order; those of jobs that ran are read when they have ended.

>>> Ahead(()).results({})
()
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aot import job
from aot.job import CompileJob
from aot.model import CompiledSource


@dataclass
class Ahead:
    """A thread that reads, once it has begun."""

    jobs: Sequence[CompileJob]
    _kept: dict[str, CompiledSource] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins to read: there is something to wait for."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # What only packaging needs takes longer to import than a build that has nothing to do.
        importlib.import_module("aot.finishing")
        there = [each for each in self.jobs if (Path(each.output) / job.RESULT).is_file()]
        for each in there:
            try:
                self._kept[each.name] = job.read_result(each)
            except (
                Exception
            ):  # of another version of aot, or being written: its job runs now, and it is read after that
                self._kept.pop(each.name, None)

    def results(self, done: Container[str]) -> tuple[CompiledSource, ...]:
        """What all jobs left; ``done`` are those that ran."""
        if self._thread is not None:
            self._thread.join()
        kept = self._kept
        return tuple(
            kept[each.name] if each.name in kept and each.name not in done else job.read_result(each)
            for each in self.jobs
        )
