"""Where jobs run: on this machine (``aot.engine.executorlocal``), or on a Dask cluster (``aot.engine.executordask``).

In: CompileJobs, one after the other. Out: a Running each, whose file becomes readable when the job has ended, with its
results in the job's folder.

>>> of(Orders(slots=2)).slots   # doctest: +SKIP
2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from aot.engine.engineoptions import LOCAL
from aot.engine.job import CompileJob, JobDone
from aot.tools.toolid import Identity


@dataclass(frozen=True)
class Orders:
    """What a foreman is told."""

    slots: int
    """Jobs at a time; 0: as many as the cluster has threads."""
    executor: str = LOCAL
    """``local`` or ``dask://HOST:PORT``."""
    cache: str | None = None
    """Folder of the local cache; None: none is used."""
    remote: str | None = None
    """Folder or URL of the shared cache."""
    toolkit: str | None = None
    cuda: int | None = None
    identity: Identity = field(default_factory=Identity)
    """Of the toolchain, which every machine must have."""


class Running(Protocol):
    """A job at work."""

    def fileno(self) -> int:
        """Becomes readable when the job has ended."""

    def watched(self) -> list[tuple[Any, Callable[[], None]]]:
        """Further files, and what to do when one becomes readable."""

    def end(self) -> JobDone:
        """What came of it; once, after it has ended."""

    def stop(self) -> None:
        """Ends it at once; nobody wants the result."""


class Executor(Protocol):
    """Runs jobs."""

    slots: int

    def prepare(self) -> None:
        """Gets everything ready that all jobs need; an AotError when the jobs could not run."""

    def admits(self, todo: CompileJob) -> bool:
        """Whether this job may start now."""

    def start(self, todo: CompileJob, before: Callable[[], None]) -> Running:
        """Begins a job; a fork of this process calls ``before`` first."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *raised: object) -> None:
        """No more jobs come."""


def of(orders: Orders) -> Executor:
    """The executor that is asked for."""
    if orders.executor == LOCAL:
        from aot.engine.executorlocal import Local

        return Local(orders)
    from aot.engine.executordask import Dask

    return Dask(orders)
