"""``aot doctor`` and ``aot targets``: what this machine can build and run.

In: the toolchain options. Out: values that know their text and their JSON.

>>> examine(None, None).exit_code   # doctest: +SKIP
0
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module, metadata, util
from pathlib import Path

from aot import driver, mlir, process
from aot.engine import compiling
from aot.errors import AotError, ToolMissing
from aot.reporting.report import plain_table
from aot.targets.arch import CUBIN, CURRENT, TABLE, Target, dotted
from aot.tools import ccompiler, toolchain

FOUND, MISSING, ABSENT = "found", "missing", "not here"
"""ABSENT: of use, but no build needs it."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    name: str
    status: str
    version: str = ""
    where: str = ""
    advice: str = ""
    """What to do; empty when nothing is to be done."""


@dataclass(frozen=True)
class Examination:
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """3 when something that every build needs is missing."""
        return ToolMissing.exit_code if any(each.status == MISSING for each in self.findings) else 0

    def as_json(self) -> object:
        return {"can_build": self.exit_code == 0, "findings": [asdict(each) for each in self.findings]}

    def text(self) -> str:
        """A table, then what to do."""
        rows = [[each.name, each.status, each.version, each.where] for each in self.findings]
        advice = [f"{each.name}: {each.advice}" for each in self.findings if each.advice]
        verdict = "ready to build" if self.exit_code == 0 else "building is not possible here"
        return "\n".join([plain_table("", ["", "status", "version", "where"], rows), "", *advice, verdict])


@dataclass(frozen=True)
class TargetTable:
    """The architectures of the table, and what can be built."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str
    """What the columns mean, and what to do."""

    def as_json(self) -> object:
        return {"toolchain": self.title, "targets": [dict(zip(self.columns, row, strict=True)) for row in self.rows]}


def targets(toolkit: str | None, cuda: int | None) -> TargetTable:
    """Every architecture with its minimum PTX version, its first CUDA toolkit, and whether this ptxas builds it."""
    tools = toolchain.find(toolkit, cuda)
    rows = []
    for arch in TABLE:
        for letter in ("", *(name for name, _ in arch.letters)):
            target = Target(arch.capability, letter, CUBIN)
            builds = "yes" if toolchain.supports(tools, target) else "no"
            rows.append((target.name, arch.generation or "-", dotted(target.min_ptx), dotted(arch.toolkit), builds))
    title = f"ptxas {tools.ptxas_version} ({tools.ptxas}), LLVM {tools.llvm_version}"
    legend = "PTX: the first version that knows it; builds: by this toolchain"
    older = "" if tools.cuda[0] < 13 else "; for older GPUs: --cuda 12"
    return TargetTable(title, ("arch", "generation", "PTX", "first CUDA", "builds"), tuple(rows), legend + older)


def examine(toolkit: str | None, cuda: int | None) -> Examination:
    """Looks for everything; nothing that is missing stops the search."""
    env = os.environ
    needed: tuple[tuple[str, Callable[[], tuple[str, str]]], ...] = (
        ("MLIR", _mlir),
        ("LLVM opt", lambda: _llvm(toolchain.find_llvm("opt", env))),
        ("LLVM llc", lambda: _llvm(toolchain.find_llvm("llc", env))),
        ("ptxas", lambda: _ptxas(toolchain.find_ptxas(toolkit, cuda, env))),
        ("nvFatbin", _nvfatbin),
        ("C compiler", _compiler),
        ("CMake", lambda: _package("cmake")),
        ("ninja", _ninja),
        ("scikit-build-core", lambda: _package("scikit_build_core")),
        ("auditwheel", lambda: _package("auditwheel")),
    )
    machine = Finding("Python", FOUND, platform.python_version(), f"{platform.system()} {platform.machine()}")
    return Examination((machine, *(_probe(name, look) for name, look in needed), *_devices()))


def _probe(name: str, look: Callable[[], tuple[str, str]]) -> Finding:
    try:
        version, where = look()
    except AotError as error:
        return Finding(name, MISSING, advice=f"{error.message}\n  {error.hint}".rstrip())
    return Finding(name, FOUND, version, where)


def _mlir() -> tuple[str, str]:
    version = mlir.version()
    return version, str(Path(mlir.bindings().__file__ or "").parent)


def _llvm(path: Path) -> tuple[str, str]:
    return toolchain.llvm_version(path), str(path)


def _ptxas(path: Path) -> tuple[str, str]:
    return toolchain.ptxas_version(path)[0], str(path)


def _compiler() -> tuple[str, str]:
    path = ccompiler.find()
    return ccompiler.version(path), str(path)


def _ninja() -> tuple[str, str]:
    path = compiling.ninja()
    return process.check([path, "--version"], error=ToolMissing).stdout.decode().strip(), path


def _nvfatbin() -> tuple[str, str]:
    try:
        nvfatbin = import_module("cuda.bindings.nvfatbin")
        major, minor = nvfatbin.version()
    except (ImportError, RuntimeError) as error:
        raise ToolMissing(
            f"cannot be loaded: {error}", hint="install it with: python -m pip install 'aot[build]'"
        ) from error
    return f"{major}.{minor}", str(nvfatbin.__file__)


def _package(module: str) -> tuple[str, str]:
    spec = util.find_spec(module)
    if spec is None:
        raise ToolMissing("not installed", hint="install it with: python -m pip install 'aot[build]'")
    return metadata.version(module.replace("_", "-")), str(Path(spec.origin or "").parent)


def _devices() -> tuple[Finding, ...]:
    """The driver and the GPUs: packages run on them, building needs neither."""
    found = driver.ask()
    if not found.found:
        advice = f"{found.problem}; packages can be built here, and run where NVIDIA's driver is installed"
        return (Finding("CUDA driver", ABSENT, advice=advice),)
    row = Finding("CUDA driver", FOUND, f"CUDA {dotted(found.cuda)}", driver.LIBRARY, found.problem)
    return (row, *(_gpu(device) for device in found.devices))


def _gpu(device: driver.Device) -> Finding:
    known = device.capability in CURRENT
    advice = "" if known else f"capability {dotted(device.capability)} is too old or too new for this aot"
    return Finding(f"GPU {device.index}", FOUND, dotted(device.capability), device.name, advice)
