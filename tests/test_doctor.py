"""What the driver says, asked of a fake one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import fakecuda
import pytest


def ask(fake: Path, arguments: list[str], fail: str = "", **settings: int) -> subprocess.CompletedProcess[str]:
    environment = {**fakecuda.environment(fake, settings, fail=fail), "PYTHONPATH": str(fakecuda.ROOT)}
    command = [sys.executable, "-m", "aot", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(done.stdout)["findings"]}


def test_doctor_names_the_driver_and_the_devices(fake_cuda: Path) -> None:
    done = ask(fake_cuda, ["doctor", "--json"], devices=2, driver=12080, capability=86)
    found = findings(done)
    assert found["CUDA driver"]["version"] == "CUDA 12.8"
    assert (found["GPU 0"]["version"], found["GPU 1"]["where"]) == ("8.6", "Fake GPU")
    assert done.returncode == 0


def test_a_driver_that_does_not_start_is_told(fake_cuda: Path) -> None:
    found = findings(ask(fake_cuda, ["doctor", "--json"], fail="cuInit:1:100"))
    assert "cuInit failed with CUresult 100" in found["CUDA driver"]["advice"]


@pytest.mark.parametrize(
    ("devices", "code", "message"),
    [(2, 1, r"(?s)native means sm_86.*compiling 1 source for sm_86"), (0, 2, "shows no GPU")],
)
def test_native_asks_the_driver(fake_cuda: Path, tmp_path: Path, devices: int, code: int, message: str) -> None:
    """The source is a broken one: what comes after the question is not of interest."""
    project = fakecuda.ROOT / "tests" / "bad" / "syntax_error"
    options = ["--archs", "native", "--name", "here", "--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]
    done = ask(fake_cuda, ["build", str(project), *options], devices=devices, capability=86)
    assert re.search(message, done.stderr), done.stderr
    assert done.returncode == code
