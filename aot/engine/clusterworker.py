"""What happens on a worker of a Dask cluster: a foreman of its own does the jobs, with MLIR loaded once.

In: an Order, as it was sent. Out: an Answer: the files of the job's folder. A crash of MLIR ends a fork of the foreman,
never the worker.

>>> compile_there(order).code   # doctest: +SKIP
0
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from aot import codec, fileset
from aot.engine import foremanprocess, job, ninjaclient, scratch
from aot.engine.executor import Orders
from aot.engine.job import CompileJob
from aot.errors import ToolMissing
from aot.tools import toolchain, toolid
from aot.tools.toolid import Identity


@dataclass(frozen=True)
class Order:
    """A job with everything that it reads."""

    todo: CompileJob
    files: dict[str, bytes]
    """Content of the source and of its script, by their paths where the build runs."""
    orders: Orders


@dataclass(frozen=True)
class Answer:
    """What a job left."""

    code: int
    files: dict[str, bytes]
    dump: dict[str, bytes] = field(default_factory=dict)


def identity(toolkit: str | None, cuda: int | None) -> bytes:
    """This machine's toolchain."""
    return codec.encode(toolid.of(toolchain.find(toolkit, cuda)))


def compile_there(order: Order) -> Answer:
    """Does a job that came from another machine."""
    different = toolid.differences(order.orders.identity, _identity(order.orders.toolkit, order.orders.cuda))
    if different:
        error = ToolMissing(
            f"{order.todo.path}: a worker of the cluster has another toolchain: {', '.join(different)}",
            hint="install the same version of 'aot[build,dask]' on all of them",
        )
        return Answer(1, {job.FAILURE: codec.encode(job.failure(error))})
    with scratch.folder("job") as folder:
        here = _moved(order, folder)
        description = folder / "job.json"
        fileset.write_file(description, job.encode(here))
        code = foremanprocess.ask(_foreman(order.orders.toolkit, order.orders.cuda), description)
        return Answer(code, _content(Path(here.output)), _content(Path(here.dump)) if here.dump else {})


def _moved(order: Order, folder: Path) -> CompileJob:
    """The job with its files in a folder here."""
    places = {name: folder / "source" / Path(name).name for name in order.files}
    for name, place in places.items():
        fileset.write_file(place, order.files[name])
    todo = order.todo
    return dataclasses.replace(
        todo,
        file=str(places[todo.file]),
        transform=str(places[todo.transform]) if todo.transform else None,
        output=str(folder / "output"),
        dump=str(folder / "dump") if todo.dump else None,
    )


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: fileset.read_file(path) for path in sorted(folder.iterdir())} if folder.is_dir() else {}


@functools.lru_cache
def _identity(toolkit: str | None, cuda: int | None) -> Identity:
    return toolid.of(toolchain.find(toolkit, cuda))


_STARTING = threading.Lock()


def _foreman(toolkit: str | None, cuda: int | None) -> Path:
    """Where this process's foreman listens; it is started by the first job, and ends with the process."""
    with _STARTING:
        return _started(toolkit, cuda)


@functools.lru_cache
def _started(toolkit: str | None, cuda: int | None) -> Path:
    rest = contextlib.ExitStack()
    atexit.register(rest.close)
    folder = rest.enter_context(scratch.folder("foreman"))
    # The cluster's scheduler decides how many jobs come; the caches are asked where the build runs.
    orders = Orders(slots=os.cpu_count() or 1, toolkit=toolkit, cuda=cuda)
    rest.enter_context(foremanprocess.foreman_in(folder, orders, lambda line: None, lambda: None))
    return folder / ninjaclient.ADDRESS
