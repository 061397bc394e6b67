"""Compiles one source: ``python -m aot.worker JOB``, one ninja edge each.

In: the file of a CompileJob. Out: the job's folder with a result or an error, and exit code 0 or 1.
The compilation runs in a child process, since bad IR can abort MLIR and LLVM: then the error
names the source and the stage.

>>> main(["build/jobs/softmax.json"])   # doctest: +SKIP
0
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from aot import fileset, job, process
from aot.errors import AotError, CompilerCrash, DiskError
from aot.job import CompileJob, Failure

HERE = "--here"
"""Compile in this process."""


def main(arguments: Sequence[str]) -> int:
    """Runs a job in a child process, or here."""
    here = arguments[0] == HERE
    try:
        todo = job.decode(fileset.read_file(Path(arguments[-1])))
        fileset.remove(Path(todo.output) / job.FAILURE)
        return compile_here(todo) if here else _guarded(todo, arguments[-1])
    except DiskError as error:
        # Where nothing can be written, ninja's own output is the way to the command line.
        sys.stderr.write(f"{job.LAST_WORDS}{error.message}\n")
        return 1


def _guarded(todo: CompileJob, description: str) -> int:
    """The job in a child; a child that dies leaves an error all the same."""
    folder = Path(todo.output)
    try:
        done = process.run_worker("aot.worker", [HERE, description], subject=todo.path)
    except CompilerCrash as crash:
        if job.read_failure(folder) is None:
            job.write_failure(folder, job.failure(crash))
        return 1
    if job.LAST_WORDS in done.words():
        raise DiskError(done.words().partition(job.LAST_WORDS)[2].partition("\n")[0])
    fileset.write_file(folder / job.LOG, done.stdout + done.stderr)
    if done.returncode and job.read_failure(folder) is None:
        job.write_failure(folder, Failure(job.BUG, f"{todo.path}: the worker failed\n{done.words()}"))
    return done.returncode


def compile_here(todo: CompileJob) -> int:
    """The job itself; its error becomes a file."""
    from aot import onesource

    try:
        job.write_result(todo, onesource.compile_source(todo, process.stage_marker()))
    except AotError as error:
        job.write_failure(Path(todo.output), job.failure(error))
        return 1
    except Exception as error:
        trouble = fileset.trouble(error) if isinstance(error, OSError) else None
        if trouble is not None:
            raise trouble from error
        text = f"while compiling {todo.path}:\n{''.join(traceback.format_exception(error))}"
        job.write_failure(Path(todo.output), Failure(job.BUG, text))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
