"""Traced programs over a package's functions, on the CPU; tests/gpu runs the same cases on a GPU.

The package is always built and its manifest looked at; what PyTorch and JAX make of it is tested where they are.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import aot
from aot.report import Silent

CASES = Path(__file__).parent / "frameworks"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, CPU code only."""
    folder = tmp_path_factory.mktemp("traced")
    request = aot.BuildRequest(
        (str(CASES / "traced.mlir"),),
        archs="host",
        name="traced_kernels",
        out=str(folder / "dist"),
        work=str(folder / "build"),
    )
    with zipfile.ZipFile(aot.build(request, Silent()).wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_extents_of_results(site: Path) -> None:
    (module,) = json.loads((site / "traced_kernels" / "aot.json").read_text(encoding="utf-8"))["modules"]
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
