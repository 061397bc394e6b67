"""Compiles the sources of a plan side by side: one ninja edge, and one process, per source.

In: jobs. Out: their CompiledSources, in order; or one error that shows every source that failed.

>>> run(jobs, work, 2, reporter)   # doctest: +SKIP
(CompiledSource(name='softmax', ...),)
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from aot import fileset, job, process, resources, rules
from aot.errors import AotError, DiskError, ToolMissing, together
from aot.job import CompileJob
from aot.model import CompiledSource
from aot.report import Reporter

STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
"""NINJA_STATUS is set so that each finished edge is one such line."""


class WorkerError(Exception):
    """A worker met an exception that is no AotError: a bug of ours, shown with its own traceback."""

    def __init__(self, traceback_text: str) -> None:
        super().__init__("a compile worker failed")
        self.traceback_text = traceback_text


def run(jobs: Sequence[CompileJob], work: Path, parallel: int, reporter: Reporter) -> tuple[CompiledSource, ...]:
    """Compiles all jobs, ``parallel`` at a time; a failing source does not stop the others."""
    edges = [_edge(each, work) for each in jobs]
    build_file = work / "build.ninja"
    fileset.write_file(build_file, rules.build_file(edges, str(work)).encode())
    done = process.follow(
        [ninja(), "-f", str(build_file), "-j", str(parallel), "-k", "0"],
        lambda line: _line(line, reporter),
        env=_environment(),
    )
    failed = [each for each in jobs if (Path(each.output) / job.FAILURE).exists()]
    if done.returncode or failed:
        raise _error(failed, done.stdout.decode("utf-8", "replace"))
    return tuple(job.read_result(each) for each in jobs)


def ninja() -> str:
    """Path of ninja: of its Python package, else of this environment, else of the system."""
    spec = importlib.util.find_spec("ninja")
    folders = [str(Path(place) / "data" / "bin") for place in (spec.submodule_search_locations or ())] if spec else []
    folders += [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    found = shutil.which("ninja", path=os.pathsep.join(folders))
    if found is None:
        raise ToolMissing("ninja was not found", hint="install it with: python -m pip install 'aot[build]'")
    return os.path.abspath(found)


def _edge(each: CompileJob, work: Path) -> rules.Edge:
    description = work / "jobs" / f"{each.name}.json"
    fileset.write_file(description, job.encode(each))
    inputs = (each.file, *((each.transform,) if each.transform else ()))
    dumped = (str(Path(each.dump) / job.FIRST_DUMP),) if each.dump else ()
    return rules.Edge(each.path, str(description), str(Path(each.output) / job.RESULT), inputs, dumped)


def _environment() -> dict[str, str]:
    """Workers find the same aot that runs here, also when it runs from a checkout."""
    root = str(resources.PACKAGE.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "NINJA_STATUS": "[%f/%t] "}


def _line(line: str, reporter: Reporter) -> None:
    status = STATUS.fullmatch(line)
    if status:
        reporter.progress(int(status[1]), int(status[2]), status[3])
    elif line:
        reporter.detail(line)


def _error(failed: Sequence[CompileJob], said: str) -> Exception:
    """The one error, or all of them together; ninja's own words when no job left an error."""
    failures = [found for found in (job.read_failure(Path(each.output)) for each in failed) if found is not None]
    bugs = [found.message for found in failures if found.kind == job.BUG]
    if bugs:
        return WorkerError("\n".join(bugs))
    problems = [job.as_error(found) for found in failures]
    words = dict.fromkeys(re.findall(f"{job.LAST_WORDS}(.*)", said))
    problems += [DiskError(each, hint="free some space, or choose another folder with --work") for each in words]
    if not problems:
        return AotError(f"ninja failed\n{said.strip()}", hint="remove the work folder (--work) and build again")
    return together(problems, f"{len(problems)} sources failed")
