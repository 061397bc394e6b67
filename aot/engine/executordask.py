"""Runs jobs on a Dask cluster, whose workers have aot and its toolchain, and no file of ours.

In: CompileJobs. Out: their folders filled. A job travels with its source, its result comes back as bytes. Dask gives
the jobs of a lost worker to another one. Before the first job all workers must have the same toolchain as we.

>>> Dask(Orders(slots=0, executor="dask://10.0.0.1:8786")).address
'tcp://10.0.0.1:8786'
"""

from __future__ import annotations

import importlib
import os
import threading
import uuid
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aot import codec, fileset
from aot.engine import cachelevels, clusterworker, job, worker
from aot.engine.cachelevels import Levels
from aot.engine.clusterworker import Answer
from aot.engine.engineoptions import DASK
from aot.engine.executor import Orders, Running
from aot.engine.executorlocal import Ended
from aot.engine.job import CompileJob, Failure, JobDone
from aot.errors import AotError, ToolMissing
from aot.tools import toolid
from aot.tools.toolid import Identity

CONNECT_SECONDS = 10


@dataclass
class Dask:
    """A client of a cluster."""

    orders: Orders
    slots: int = field(init=False)
    address: str = field(init=False)
    client: Any = field(init=False, default=None)
    levels: Levels = field(init=False)

    def __post_init__(self) -> None:
        self.slots = self.orders.slots
        self.address = f"tcp://{self.orders.executor.removeprefix(DASK)}"
        self.levels = cachelevels.of(self.orders.cache, self.orders.remote)

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.client is not None:
            self.client.close()

    def prepare(self) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise ToolMissing(
                f"a Dask cluster needs distributed: {error}", hint="python -m pip install 'aot[dask]'"
            ) from error
        self.client = self._connected(distributed)
        threads = self.client.nthreads()
        if not threads:
            raise AotError(
                f"the Dask cluster at {self.address} has no workers", hint="start some: dask worker HOST:PORT"
            )
        self._compare()
        self.slots = self.slots or sum(threads.values())

    def _connected(self, distributed: Any) -> Any:
        """The client; in a thread, since its own time limit ends where something else accepts and says nothing."""
        found: futures.Future[Any] = futures.Future()

        def connect() -> None:
            try:
                found.set_result(distributed.Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=connect, daemon=True).start()
        try:
            return found.result(2 * CONNECT_SECONDS)
        except (OSError, futures.TimeoutError) as error:
            hint = "start one with: dask scheduler; and on every machine: dask worker HOST:PORT"
            raise AotError(f"no Dask scheduler answers at {self.address}", hint=hint) from error

    def _compare(self) -> None:
        """All workers must have our toolchain: else the same source would give this code here and that code there."""
        found = self.client.run(clusterworker.identity, self.orders.toolkit, self.orders.cuda, on_error="return")
        problems = []
        for place in sorted(found):
            if isinstance(found[place], Exception):
                problems.append(f"{place}: {type(found[place]).__name__}: {found[place]}")
            else:
                there = codec.decode(found[place], Identity)
                problems += [f"{place}: {each}" for each in toolid.differences(self.orders.identity, there)]
        if problems:
            raise ToolMissing(
                "workers of the cluster have another toolchain than this machine\n  " + "\n  ".join(problems),
                hint="install the same version of 'aot[build,dask]' on all of them",
            )

    def admits(self, todo: CompileJob) -> bool:
        return True

    def start(self, todo: CompileJob, before: Callable[[], None]) -> Running:
        done = worker.from_cache(todo, self.levels)
        if done is not None:
            return Ended(done)
        files = {name: fileset.read_file(Path(name)) for name in (todo.file, todo.transform) if name}
        order = clusterworker.Order(todo, files, self.orders)
        future = self.client.submit(clusterworker.compile_there, order, key=f"aot-{uuid.uuid4().hex}", pure=False)
        running = Sent(self, todo, future)
        future.add_done_callback(running.wake)
        return running


@dataclass
class Sent:
    """A job that a worker of the cluster does."""

    owner: Dask
    todo: CompileJob
    future: Any
    handle: int = field(default_factory=lambda: os.eventfd(0))
    open: bool = True

    def fileno(self) -> int:
        return self.handle

    def watched(self) -> list[tuple[Any, Callable[[], None]]]:
        return []

    def wake(self, future: Any) -> None:
        """Called in a thread of the client."""
        if self.open:
            os.eventfd_write(self.handle, 1)

    def end(self) -> JobDone:
        os.close(self.handle)
        self.open = False
        if self.future.status != "finished":
            return self._failed()
        answer: Answer = self.future.result()
        self.future.release()
        for name in sorted(answer.dump):
            fileset.write_file(Path(self.todo.dump or "") / name, answer.dump[name])
        folder = Path(self.todo.output)
        # The result comes last: it says that all else is there.
        for name in sorted(answer.files, key=lambda name: (name == job.RESULT, name)):
            fileset.write_file(folder / name, answer.files[name])
        if answer.code == 0:
            self.owner.levels.put(job.key(self.todo), worker.packed(job.read_result(self.todo)))
        how = job.BUILT if answer.code == 0 else ""
        return JobDone(answer.code, how, notes=self.owner.levels.notes())

    def stop(self) -> None:
        self.open = False
        os.close(self.handle)
        self.future.cancel(force=True)

    def _failed(self) -> JobDone:
        """The cluster could not do it: its workers died over it, again and again, or it is gone."""
        error = self.future.exception() if self.future.status == "error" else None
        why = f"{type(error).__name__}: {error}" if error else "the cluster has gone"
        failure = Failure(AotError.__name__, f"{self.todo.path}: the Dask cluster failed: {why}", "build again")
        job.write_failure(Path(self.todo.output), failure)
        return JobDone(1)
