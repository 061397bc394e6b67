"""Wheels for free-threaded Pythons: which interpreter is taken, and the extension in one, if this machine has one."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import fakecuda
import pytest
from extension import source

import aot
from aot.errors import ToolMissing
from aot.tools import ccompiler, freethreaded
from aot.wheels import wheel

HELLO = Path(__file__).parents[1] / "examples" / "kernels" / "hello.mlir"
FOUND = next(filter(None, map(shutil.which, ("python3.13t", "python3.14t", "python3.15t"))), None)
CASES = ("threads", "every_protocol_and_its_result", "device_array_exports", "kernel_sizes", "allocator_errors", "out")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param("3.99t", "no free-threaded Python 'python3.99t' was found", id="version"),
        pytest.param("/nowhere/python", "no free-threaded Python '/nowhere/python' was found", id="path"),
        pytest.param("/tmp", "'/tmp' is no executable", id="folder"),
        pytest.param(__file__, "is no executable", id="text"),
        pytest.param(sys.executable, "is an ordinary Python 3", id="ordinary"),
    ],
)
def test_a_python_that_will_not_do(said: str, text: str, tmp_path: Path) -> None:
    """It is an error before anything is compiled, and says what to do."""
    request = aot.BuildRequest((str(HELLO),), archs="sm_80", free_threaded=said, work=str(tmp_path / "work"))
    with pytest.raises(ToolMissing, match=text) as raised:
        aot.build(request)
    assert "uv python install 3.13t" in (raised.value.hint or "")
    assert not (tmp_path / "work").exists()


def test_headers_are_needed(tmp_path: Path) -> None:
    executable = tmp_path / "python3.14t"
    facts = json.dumps([[3, 14], True, str(tmp_path), "cpython-314t-x86_64-linux-gnu"])
    executable.write_text(f"#!/bin/sh\necho '{facts}'\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ToolMissing, match="has no headers"):
        freethreaded.find(str(executable))
    (tmp_path / "Python.h").touch()
    found = freethreaded.find(str(executable))
    assert (found.tag, found.include, found.abi) == ("cp314-cp314t", str(tmp_path), "cpython-314t-x86_64-linux-gnu")


def test_headers_of_this_python_are_needed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(ToolMissing, match=f"has no headers: there is no '{tmp_path}/Python.h'"):
        ccompiler.python_headers()


@pytest.mark.skipif(FOUND is None, reason="no free-threaded Python on this machine")
def test_extension(fake_cuda: Path, tmp_path: Path) -> None:
    python = freethreaded.find(str(FOUND))
    compiled = source.compiled(tmp_path, fakecuda.compiler(), platform.machine())
    tree = source.write(tmp_path / "tree", source.spec(), compiled)
    made = wheel.build(tree, tmp_path / "wheel", wheel.Options(python=python))
    assert made.wheel.name == f"demopkg-1.0-{python.tag}-{made.platform}.whl"
    with zipfile.ZipFile(made.wheel) as archive:
        assert f"Tag: {python.tag}-{made.platform}\n" in archive.read("demopkg-1.0.dist-info/WHEEL").decode()
        archive.extractall(tmp_path / "site")
    environment = fakecuda.environment(fake_cuda, {"devices": 2})
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (tmp_path / "site", source.HERE)))
    script = "import sys, demopkg; sys.exit(sys._is_gil_enabled())"
    subprocess.run([python.executable, "-c", script], env=environment, check=True)
    if subprocess.run(
        [python.executable, "-c", "import numpy"], env=environment, check=False, capture_output=True
    ).returncode:
        pytest.skip(f"'{python.executable}' has no NumPy for the cases")
    for case in CASES:
        command = [python.executable, str(source.HERE / "cases.py"), case]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{case}: {done.stdout}{done.stderr}"
