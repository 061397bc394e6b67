"""Tools: where they are found, what they can, and what is said when they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from aot.errors import ArchUnsupported, ToolMissing
from aot.targets import archlist
from aot.targets.arch import CUBIN, PTX, dotted
from aot.tools import toolchain
from aot.tools.toolchain import Toolchain


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    return toolchain.find(environment={})


def fake_ptxas(folder: Path, version: str, archs: str) -> Path:
    """A toolkit whose ptxas knows its version and architectures and nothing else."""
    script = folder / "bin" / "ptxas"
    script.parent.mkdir(parents=True)
    listed = ",".join(f"'{name}'" for name in archs.split())
    text = f'case "$1" in --version) echo "release, V{version}" ;; --help) echo "Allowed values: {listed}" ;; esac'
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return folder


def test_packages_give_everything(tools: Toolchain) -> None:
    for path in (tools.ptxas, tools.opt, tools.llc, tools.libdevice):
        assert path is not None
        assert path.is_file()
    assert tools.cuda >= (13, 0)
    assert tools.llvm_version.startswith("22.")
    assert {"sm_80", "sm_90a"} <= set(tools.archs)


def test_path_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ptxas(tmp_path, "11.1.1", "sm_80")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert tmp_path not in toolchain.find().ptxas.parents


def test_a_named_toolkit(tmp_path: Path) -> None:
    found = toolchain.find(toolkit=str(fake_ptxas(tmp_path, "12.8.93", "sm_80 sm_100a")), environment={})
    assert (found.cuda, found.ptx, found.archs) == ((12, 8), (8, 7), ("sm_80", "sm_100a"))
    assert found.libdevice is None


def test_variables_say_the_same(tmp_path: Path) -> None:
    environment = {"AOT_TOOLKIT": str(fake_ptxas(tmp_path, "12.9.1", "sm_80"))}
    assert toolchain.find(environment=environment).toolkit == tmp_path
    other = fake_ptxas(tmp_path / "other", "13.0.1", "sm_80")
    assert toolchain.find(toolkit=str(other), environment=environment).toolkit == other


MISSING = {
    "no ptxas there": ({"toolkit": "/nowhere"}, "ptxas was not found; looked at /nowhere/bin/ptxas"),
    "no such CUDA": ({"cuda": 11}, "no toolkit packages for CUDA 11"),
    "no llvm there": ({"environment": {"AOT_LLVM": "/nowhere"}}, "opt was not found; looked at /nowhere/opt"),
}


@pytest.mark.parametrize(("arguments", "message"), MISSING.values(), ids=MISSING)
def test_missing_tools_say_where_they_were_looked_for(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ToolMissing, match=message) as caught:
        toolchain.find(**{"environment": {}, **arguments})  # type: ignore[arg-type]
    assert caught.value.exit_code == 3


OLD = {
    "too old": ("11.8.89", None, "is of CUDA 11.8; this needs 12.0 or newer"),
    "not the one asked for": ("13.0.1", 12, "CUDA 12 was asked for, but .* is of CUDA 13.0$"),
    "not ptxas": ("none", None, "does not tell its version"),
}


@pytest.mark.parametrize(("version", "cuda", "message"), OLD.values(), ids=OLD)
def test_unfit_toolkits(version: str, cuda: int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match=message) as caught:
        toolchain.find(toolkit=str(fake_ptxas(tmp_path, version, "sm_80")), cuda=cuda, environment={})
    assert "--toolkit DIR" in caught.value.hint


UNSUPPORTED = {
    "too old for this ptxas": ("sm_70", "sm_70: ptxas .* cannot build it; the nearest that it can is sm_75", True),
    "renamed": ("sm_101", "sm_101: ptxas .*the same chip is sm_110 in that CUDA", True),
    "not in LLVM": ("sm_107", "sm_107: LLVM .* cannot generate code for it; .*, such as compute_103$", False),
}


@pytest.mark.parametrize(("arch", "message", "another"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported_architectures(tools: Toolchain, arch: str, message: str, another: bool) -> None:
    with pytest.raises(ArchUnsupported, match=message) as caught:
        toolchain.check(tools, archlist.parse(f"sm_80,{arch},{arch}+PTX").targets)
    words = (f"{tools.ptxas} is of CUDA {dotted(tools.cuda)};", "--toolkit", "AOT_TOOLKIT")
    assert [each in caught.value.hint for each in words] == [another] * 3
    assert caught.value.message.count("\n") == 0
    assert caught.value.exit_code == 3


def test_all_unsupported_architectures_are_told_together(tools: Toolchain) -> None:
    with pytest.raises(ArchUnsupported) as caught:
        toolchain.check(tools, archlist.parse("60,70,90").targets)
    assert [line.split(":")[0] for line in caught.value.message.splitlines()] == ["sm_60", "sm_70"]


def test_all_major_can_be_built(tools: Toolchain) -> None:
    toolchain.check(tools, archlist.parse("all-major,all,90a,100f,120+PTX").targets)


DRIVERS = {
    "cubins of CUDA 13": ([(CUBIN, "8.8")], (13, 5), False, (13, 0)),
    "cubins of CUDA 12": ([(CUBIN, "8.8"), (PTX, "8.0")], (12, 9), False, (12, 0)),
    "compressed, CUDA 12": ([(CUBIN, "8.8")], (12, 9), True, (12, 4)),
    "compressed, CUDA 13": ([(CUBIN, "8.8")], (13, 5), True, (13, 0)),
    "ptx alone": ([(PTX, "8.6")], (13, 5), False, (12, 7)),
    "nothing": ([], (13, 5), False, (12, 0)),
}


@pytest.mark.parametrize(("images", "cuda", "compressed", "needed"), DRIVERS.values(), ids=DRIVERS)
def test_drivers(
    tools: Toolchain, images: list[tuple[str, str]], cuda: tuple[int, int], compressed: bool, needed: tuple[int, int]
) -> None:
    import dataclasses

    of = dataclasses.replace(tools, cuda=cuda)
    assert toolchain.min_driver_cuda(of, images, compressed=compressed) == needed


def test_ptx_and_cuda_versions_agree() -> None:
    for cuda in [(11, 0), (11, 8), (12, 0), (12, 4), (12, 6), (12, 8), (12, 9), (13, 0), (13, 2)]:
        assert toolchain.cuda_of_ptx(toolchain.ptx_of_cuda(cuda)) <= cuda
