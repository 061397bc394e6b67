"""Calls with arrays in host memory: every case of tests/extension/cpu_cases.py in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import fakecuda
import pytest
from extension import source

from aot.engine import cachelevels
from aot.fatbins import cpuonly
from aot.wheels import packing, rawzip, wheel
from aot.wheels.runtimeobjects import Runtime
from aot.wheels.wheelfile import extension_of, problems

CASES = Path(source.HERE, "cpu_cases.py")
NAMES = source.case_names(CASES)


@pytest.fixture(scope="session")
def cpu_wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, wheel.BuiltWheel]:
    """`cpupkg` with GPU and CPU code, `hostpkg` with CPU code alone."""
    folder = tmp_path_factory.mktemp("cpu")
    compiler, machine = fakecuda.compiler(), platform.machine()
    both = source.with_cpu_code(source.compiled(folder, compiler, machine), folder, compiler, machine)
    sources = {"cpupkg": both, "hostpkg": cpuonly.reduced(both)}
    return {
        name: packing.fresh(
            source.write(folder / name, source.spec(name), each),
            folder / f"{name}-wheel",
            wheel.Options(),
            Runtime(cachelevels.of(os.environ["AOT_CACHE"], None), folder / f"{name}-wheel"),
        )
        for name, each in sources.items()
    }


@pytest.fixture(scope="session")
def cpu_site(tmp_path_factory: pytest.TempPathFactory, cpu_wheels: dict[str, wheel.BuiltWheel]) -> Path:
    folder = tmp_path_factory.mktemp("cpu_site")
    for built in cpu_wheels.values():
        with zipfile.ZipFile(built.wheel) as archive:
            archive.extractall(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_extension(name: str, cpu_site: Path, fake_cuda: Path) -> None:
    environment = fakecuda.environment(fake_cuda, {"devices": 2}) if name.startswith("gpu_") else dict(os.environ)
    environment["PYTHONPATH"] = f"{cpu_site}:{source.HERE}"
    environment.pop("AOT_NUM_THREADS", None)
    command = [sys.executable, "-X", "faulthandler", "-W", "error", str(CASES), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheels_are_what_they_should_be(cpu_wheels: dict[str, wheel.BuiltWheel]) -> None:
    for name, blobs in (("cpupkg", {"demo.fatbin": source.BLOB}), ("hostpkg", {})):
        extension, library = extension_of(rawzip.read(cpu_wheels[name].wheel.read_bytes()))
        assert problems(extension.removesuffix(".abi3.so"), library, blobs) == []


def test_what_is_left_without_a_gpu(tmp_path: Path) -> None:
    compiler, machine = fakecuda.compiler(), platform.machine()
    both = source.with_cpu_code(source.compiled(tmp_path, compiler, machine), tmp_path, compiler, machine)
    left = cpuonly.reduced(both)
    assert tuple(sorted(each.name for each in left.functions)) == tuple(sorted(source.CPU_FUNCTIONS))
    assert left.notes[-1].startswith("left out, since only tensor-level functions run on a CPU: shifted, ")
    assert cpuonly.reduced(left) == dataclasses.replace(left, notes=left.notes)
