"""Runs commands for ``benchmarks/build.py``: wall time, processor time of all their processes, memory.

>>> run(["/bin/true"], cwd=Path("/")).wall < 1
True
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """One run of some commands."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of all processors."""
    peak: float = 0.0
    """Largest memory of the first process, in MB."""
    said: str = ""

    def times(self, factor: float) -> Run:
        return Run(self.wall * factor, self.cpu * factor)

    def plus(self, other: Run) -> Run:
        return Run(self.wall + other.wall, self.cpu + other.cpu)

    def less(self, other: Run) -> Run:
        return Run(self.wall - other.wall, self.cpu - other.cpu)


def run(*commands: Sequence[str], cwd: Path, env: dict[str, str] | None = None) -> Run:
    """Runs commands one after the other."""
    before, start, peak, said = os.times(), time.monotonic(), 0.0, ""
    for command in commands:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        marks: list[float] = []
        watch = threading.Thread(target=_watch, args=(child.pid, marks))
        watch.start()
        said, words = child.communicate()
        watch.join()
        if child.returncode:
            raise SystemExit(f"{' '.join(command)}\n{words}")
        peak = max([peak, *marks])
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return Run(time.monotonic() - start, cpu, peak, said)


def _watch(pid: int, marks: list[float]) -> None:
    """Reads a process's high-water mark until it has ended."""
    try:
        while True:
            text = Path(f"/proc/{pid}/status").read_text()
            marks.append(int(text.partition("VmHWM:")[2].split()[0]) / 1024)
            time.sleep(0.02)
    except (OSError, IndexError):
        return


def tool(package: str, name: str) -> str:
    """A program of an installed package, such as ``nvidia`` and ``cu13/bin/ptxas``."""
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    found = next((Path(place, name) for place in places or () if Path(place, name).is_file()), None)
    if found is None:
        raise SystemExit(f"the package {package} has no {name}")
    return str(found)
