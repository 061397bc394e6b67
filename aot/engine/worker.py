"""Does one job: its result is taken from the cache, or the source is compiled.

In: a CompileJob. Out: the job's folder with a result or an error. This runs in a process of its own, since bad IR
can abort MLIR and LLVM (``aot.engine.forked``, ``aot.engine.executor``).

>>> compile_job(job, mark, Alone(), Levels()).code   # doctest: +SKIP
0
"""

from __future__ import annotations

import importlib
import traceback
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from aot import codec, fileset, mlir
from aot.engine import job
from aot.engine.cachelevels import Levels
from aot.engine.forked import Crew, Mark
from aot.engine.job import BUILT, CACHED, CompileJob, Failure, JobDone
from aot.errors import AotError, DiskError
from aot.fatbins import fatbin
from aot.model import CompiledSource
from aot.tools import toolchain

PACKED = 1
"""zlib's level for cached results: assembly and fatbins shrink to a fifth, at the speed of the disk."""


def prepare(toolkit: str | None, cuda: int | None) -> None:
    """Loads everything that jobs need into this process, of which they are forks."""
    # The tools answer while modules are imported.
    with ThreadPoolExecutor(1) as thread:
        tools = thread.submit(toolchain.find, toolkit, cuda)
        mlir.load()
        fatbin.load()
        codec.prepare(CompiledSource)
        importlib.import_module("aot.onesource")
        tools.result()


def compile_job(todo: CompileJob, mark: Mark, crew: Crew, levels: Levels) -> JobDone:
    """Does the job; its error becomes a file."""
    folder = Path(todo.output)
    done = from_cache(todo, levels)
    if done is not None:
        return done
    try:
        made = compiled(todo, mark, crew)
        if isinstance(made, Failure):
            job.write_failure(folder, made)
            return JobDone(1, notes=levels.notes())
        job.write_result(todo, made)
        levels.put(job.key(todo), packed(made))
        return JobDone(0, BUILT, notes=levels.notes())
    except DiskError as error:
        return JobDone(1, disk=error.message)


def from_cache(todo: CompileJob, levels: Levels) -> JobDone | None:
    """Takes the result from the cache; None when it is not there."""
    try:
        fileset.remove(Path(todo.output) / job.FAILURE)
        # The IR of each stage is kept by stages only.
        found = None if todo.dump else levels.get(job.key(todo))
        if found is None:
            return None
        job.write_result(todo, unpacked(todo, found))
        fileset.remove(Path(todo.output) / job.LOG)
    except DiskError as error:
        return JobDone(1, disk=error.message)
    return JobDone(0, CACHED, notes=levels.notes())


def compiled(todo: CompileJob, mark: Mark, crew: Crew) -> CompiledSource | Failure:
    """Compiles the source of a job; its error is a value, but for the disk's."""
    from aot import onesource

    try:
        return onesource.compile_source(todo, mark, crew)
    except AotError as error:
        if isinstance(error, DiskError):
            raise
        return job.failure(error)
    except Exception as error:
        trouble = fileset.trouble(error) if isinstance(error, OSError) else None
        if trouble is not None:
            raise trouble from error
        text = f"while compiling {todo.path}:\n{''.join(traceback.format_exception(error))}"
        return Failure(job.BUG, text)


def packed(compiled: CompiledSource) -> bytes:
    """A result as the cache keeps it: without the folder that the source lies in."""
    return zlib.compress(codec.encode(replace(compiled, path="")), PACKED)


def unpacked(todo: CompileJob, data: bytes) -> CompiledSource:
    """The result of a job out of the cache."""
    return replace(codec.decode(zlib.decompress(data), CompiledSource), path=todo.path)
