"""A package's functions from other programs, on the CPU: traced ones of PyTorch and JAX, tvm-ffi's, and C.

The package is always built, its manifest looked at and its C library used; PyTorch, JAX and tvm-ffi are asked where
they are. tests/gpu runs the same cases on a GPU.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import fakecuda
import pytest

import aot
from aot.reporting.report import Silent

CASES = Path(__file__).parent / "frameworks"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> aot.BuildResult:
    """CPU code only, for everybody."""
    folder = tmp_path_factory.mktemp("traced")
    places = {"out": str(folder / "dist"), "work": str(folder / "build")}
    return aot.build(aot.BuildRequest((str(CASES),), archs="host", tvm_ffi=True, c=True, **places), Silent())


@pytest.fixture(scope="module")
def site(built: aot.BuildResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built.wheel) as archive:
        archive.extractall(folder)
    return folder


def test_extents_of_results(site: Path) -> None:
    module, _ = json.loads((site / "traced_kernels" / "aot.json").read_text(encoding="utf-8"))["modules"]
    assert {each["name"]: [result["extents"] for result in each["results"]] for each in module["functions"]} == {
        "twice": [["d0", 4]],
        "scaled_into": [None],
        "iota": [["s0"]],
        "two": [["d0"], None],
        "counted": [[None]],
        "incremented": [None],
        "framed": [["d0 + s0 * 2", "ceildiv(d1, 2)"]],
    }


def test_torch(site: Path) -> None:
    run("torch", site)


def test_tvm_ffi(site: Path) -> None:
    run("tvm_ffi", site)


def test_c(built: aot.BuildResult, tmp_path: Path) -> None:
    header, library = built.c_files
    assert (header.name, library.name) == ("traced_kernels.h", "libtraced_kernels.a")
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{header.parent}"]
    program = [str(CASES / "program.c"), str(library), "-ldl", "-lm", "-lpthread", "-o", str(tmp_path / "program")]
    subprocess.run([*fakecuda.compiler().split(), *options, *program], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stdout + done.stderr
    symbols = subprocess.run(["nm", "-g", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert {
        line.split()[2].startswith("traced_kernels_") for line in symbols.splitlines() if len(line.split()) == 3
    } == {True}


def run(framework: str, site: Path) -> None:
    """All cases of a framework, in one process."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    environment = {"PYTHONPATH": ":".join([str(site), *filter(None, sys.path)]), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, str(CASES / f"{framework}_cases.py"), "cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jax(site: Path) -> None:
    run("jax", site)
