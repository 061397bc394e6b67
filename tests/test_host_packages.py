"""Packages with code for the CPU: built by the product, run on numpy's arrays in a process without a driver."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from builtpackage import Built, build_in, write_sources

from aot import resources
from aot.commands import inspection

PROGRAM = """
import numpy as np, small_demo
x = np.arange(100_003, dtype="float32")
y = small_demo.tensor_level.double(x)
assert type(y) is np.ndarray and (y == 2 * x).all()
assert (small_demo.double(x, out=x[:]) == y).all() and (x == y).all()
report = small_demo.check()
assert report.cpu and report.threads, report
print("ok" if report else report.problems[0])
"""


def manifest(built: Built) -> dict[str, object]:
    with zipfile.ZipFile(built.result.wheel) as wheel:
        found: dict[str, object] = json.loads(wheel.read("small_demo/aot.json"))
    return found


def run(built: Built, folder: Path) -> str:
    with zipfile.ZipFile(built.result.wheel) as wheel:
        wheel.extractall(folder)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("both")
    write_sources(folder)
    return build_in(folder, archs="sm_80,host", sdist=True, c=True)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("host")
    write_sources(folder)
    return build_in(folder, archs="host")


def test_gpu_and_cpu_code(both: Built, tmp_path: Path) -> None:
    assert both.result.archs == ("sm_80", "host")
    assert both.result.left_out == ("hopper",)
    assert "source 'hopper' is left out: it has no code for what was asked for" in both.heard.notes
    assert {each.name: each.images for each in both.result.sources} == dict.fromkeys(
        ("kernel", "launch", "tensor_level"), ("sm_80", "compute_80")
    )
    assert "no NVIDIA driver" in run(both, tmp_path) or run(both, tmp_path) == "ok\n"
    text = inspection.text(inspection.inspect(str(both.result.wheel)))
    assert "double(x: tensor<?xf32>) -> tensor<?xf32> (CPU, too)" in text
    assert "first(out: memref<4xf32>)\n" in text
    assert "CPU code for " in text


def test_a_c_library_is_said_to_leave_out_kernels_without_host_code(both: Built) -> None:
    left_out = {each.name: note for each in both.result.sources for note in each.notes if "--c" in note}
    assert left_out == {"kernel": "without host code, and so left out by --c: iota"}
    assert any(note.endswith(left_out["kernel"]) for note in both.heard.notes)
    assert "iota" not in next(path for path in both.result.c_files if path.suffix == ".h").read_text().split("*/")[-1]


def test_notes_of_cpu_code_alone_tell_of_no_images(tmp_path: Path) -> None:
    """What kernels need is nobody's concern where no GPU code was asked for."""
    (tmp_path / "kernels").mkdir()
    shutil.copy(resources.examples() / "kernels" / "softmax.mlir", tmp_path / "kernels")
    shutil.copy(resources.examples() / "kernels" / "hello.mlir", tmp_path / "kernels")
    built = build_in(tmp_path, archs="host")
    assert built.heard.notes == ["source 'hello' is left out: only tensor-level functions have CPU code"]


def test_cpu_code_alone(host: Built, tmp_path: Path) -> None:
    assert host.result.archs == ("host",)
    assert sorted(host.result.left_out) == ["hopper", "kernel", "launch"]
    assert [(each.name, each.functions, each.images) for each in host.result.sources] == [
        ("tensor_level", ("double",), ())
    ]
    assert run(host, tmp_path) == "ok\n"
    names = zipfile.ZipFile(host.result.wheel).namelist()
    assert "small_demo/launch.pyi" not in names
    text = inspection.text(inspection.inspect(str(host.result.wheel)))
    assert "(CPU)" in text
    assert "driver" not in text
    assert manifest(host)["left_out"] == ["hopper", "kernel", "launch"]


@pytest.mark.usefixtures("no_cache")
def test_cpu_code_is_the_same_bytes_again(host: Built, tmp_path: Path) -> None:
    write_sources(tmp_path)
    again = build_in(tmp_path, archs="host")
    assert again.result.wheel.read_bytes() == host.result.wheel.read_bytes()
