"""The tool's own wheel: pure, and with the templates and rules that a checkout has beside the package."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import aot

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    out = tmp_path_factory.mktemp("own wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.iterdir()
    assert path.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.parametrize("folder", ["templates", "build_rules", "examples"])
def test_what_lies_beside_the_package_travels_inside(wheel: zipfile.ZipFile, folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    for path in files:
        name = f"aot/{path.relative_to(ROOT).as_posix()}"
        assert wheel.read(name) == path.read_bytes(), name


def test_every_module_travels_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "aot").rglob("*.py")}
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    beside = {name for name in inside if name.startswith(("aot/templates/", "aot/build_rules/", "aot/examples/"))}
    assert inside - beside == modules | {"aot/py.typed"}


def test_the_command_and_the_extras_are_declared(wheel: zipfile.ZipFile) -> None:
    info = next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    assert "aot = aot.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert metadata["Version"] == aot.__version__
    assert {"build", "cu12", "plot", "test"} <= set(metadata.get_all("Provides-Extra") or ())
    bare = [line for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert not [line for line in bare if line.startswith(("nvidia", "xtc", "cuda"))], "inspecting needs no toolchain"
