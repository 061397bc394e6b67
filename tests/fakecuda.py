"""Builds the fake libcuda and the runtime core's test library, and talks to a process that uses them.

In: C sources in ``tests/fake_cuda`` and ``templates/runtime``. Out: folders with ``libcuda.so.1``, found by
``LD_LIBRARY_PATH`` as the real one is, and :class:`Core`, a process of its own, because the name libcuda.so.1 can stand
for one library only in a process, and GPU tests need the real one::

    def test_alloc(core):
        assert core.call("alloc 400 | free $0").code == 0
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from onceperrun import once

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "templates" / "runtime"
FAKE = ROOT / "tests" / "fake_cuda"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
WARNINGS = ("-std=gnu11", *STRICT, "-O1", "-g", "-shared", "-fPIC", "-pthread")

UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")


def compiler() -> str:
    """The C compiler that the tests use: ``CC``, else the first of cc, gcc and clang."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert found, "the tests of the runtime need a C compiler"
    return found


def compile_library(target: Path, sources: Sequence[Path], *options: str) -> Path:
    """Compiles C files into one shared library."""
    command = [*compiler().split(), *WARNINGS, f"-I{RUNTIME}", *map(str, sources), *options, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return target


def build_fake(folder: Path, without: Sequence[str] = ()) -> Path:
    """Builds ``libcuda.so.1`` in the folder and returns the folder; ``without`` names entry points that it lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(FAKE.glob("fake_*.c"))
    missing = [f"-D{name}=absent_{name}" for name in without]
    compile_library(folder / "libcuda.so.1", sources, "-Wl,-soname,libcuda.so.1", *missing)
    return folder


def core_sources() -> list[Path]:
    """The runtime's C files that know nothing of Python."""
    return sorted(p for p in RUNTIME.glob("*.c") if not p.name.startswith("py_"))


def build_core(folder: Path, *options: str) -> Path:
    """Builds the runtime core with the tests' scripted function."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_library(folder / "libcore.so", [*core_sources(), FAKE / "driver.c"], "-ldl", *options)


def build_watched_core(folder: Path) -> Path:
    """The same; what C does not define ends the process, where the compiler can see to that."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / "probe.c"
    probe.write_text("int probe;\n")
    command = [*compiler().split(), "-shared", "-fPIC", *UNDEFINED, str(probe), "-o", str(folder / "probe.so")]
    can = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return build_core(folder, *(UNDEFINED if can else ()))


def sanitizer(name: str) -> str | None:
    """The library that a program must be started with when a library in it was compiled for the sanitizer."""
    command = [*compiler().split(), f"-print-file-name=lib{name[0]}san.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if Path(found).is_absolute() else None


def environment(
    fake_folder: Path, settings: Mapping[str, int] | None = None, *, log: Path | None = None, fail: str = ""
) -> dict[str, str]:
    """Environment of a process that is to find the fake; settings as in ``fake_settings``: ``{"devices": 2}``."""
    found = dict(os.environ)
    found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(fake_folder), os.environ.get("LD_LIBRARY_PATH", "")]))
    found["FAKE_CUDA_SET"] = ",".join(f"{key}={value}" for key, value in (settings or {}).items())
    found["FAKE_CUDA_FAIL"] = fail
    # glibc: memory that was given back does not look as before
    found["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165"
    if log is not None:
        found["FAKE_CUDA_LOG"] = str(log)
    return found


@dataclass(frozen=True)
class Result:
    """What one call of the scripted function gave."""

    code: int
    """0, a CUresult, or one of aot.h's AOT_E_*."""
    message: str
    values: list[int] = field(default_factory=list)
    """What each command of the script returned."""
    out: str = ""
    """What it wrote to C's stdout."""


class Core:
    """A process with the runtime core on the fake libcuda."""

    def __init__(
        self, core: Path, fake_folder: Path | None, settings: Mapping[str, int] | None = None, *, steered: bool = True
    ) -> None:
        """Starts it; ``steered=False`` leaves the fake to the core alone: it may not even be a library.

        Without a folder it works on the machine's own driver.
        """
        driver = str(fake_folder / "libcuda.so.1") if fake_folder else "libcuda.so.1"
        worker = [sys.executable, "-u", str(FAKE / "worker.py"), str(core), *([driver] if steered else [])]
        self._process = subprocess.Popen(
            worker,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(fake_folder, settings) if fake_folder else None,
        )

    def ask(self, function: str, *arguments: object, **named: object) -> Any:
        """Runs a function of the worker and returns its answer."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([function, arguments, named]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the worker died in {function}{arguments} with {process.wait()}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def call(self, script: str, *, flags: int = 0, device: int = 0, stream: int = 0) -> Result:
        """Calls the function whose body is the script (tests/fake_cuda/driver.c has the commands)."""
        return Result(**self.ask("call", script, flags, device, stream))

    def log(self) -> list[str]:
        """The driver calls since the last look, in order."""
        return cast("list[str]", self.ask("log"))

    def fake(self, function: str, *arguments: object) -> int:
        """Calls ``fake_<function>`` of the fake libcuda."""
        return cast("int", self.ask("fake", function, *arguments))

    def stop(self) -> None:
        """Ends the process; it has to end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(timeout=20) == 0
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the fake ``libcuda.so.1``, built once."""
    return once(tmp_path_factory, "fake_cuda", build_fake)


@pytest.fixture(scope="session")
def core_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime core as a library for the worker."""
    return once(tmp_path_factory, "runtime_core", build_watched_core)


@pytest.fixture
def core(core_library: Path, fake_cuda: Path, request: pytest.FixtureRequest) -> Iterator[Core]:
    """A fresh process; ``@pytest.mark.parametrize("core", [{"devices": 2}], indirect=True)`` gives settings."""
    running = Core(core_library, fake_cuda, getattr(request, "param", None))
    yield running
    running.stop()
