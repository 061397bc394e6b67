"""What compiles, by versions and bytes: the same identity makes the same code of the same source.

In: a Toolchain. Out: an Identity, equal on every machine that has the same tools, wherever they lie there.

>>> differences(Identity((("ptxas", "13.0"),)), Identity((("ptxas", "12.9"),)))
['ptxas 12.9 instead of 13.0']
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import aot
from aot import fileset, mlir, resources
from aot.tools.toolchain import Toolchain


@dataclass(frozen=True)
class Identity:
    """The parts of a toolchain."""

    parts: tuple[tuple[str, str], ...] = ()
    """(name, version)."""

    def digest(self) -> str:
        """All of them in one."""
        return hashlib.sha256("\0".join(f"{name} {version}" for name, version in self.parts).encode()).hexdigest()


def of(tools: Toolchain) -> Identity:
    """The identity of these tools, and of this aot."""
    return Identity((
        ("aot", f"{aot.__version__} ({resources.digest(resources.PACKAGE, '*.py')[:12]})"),
        ("MLIR", _mlir()),
        ("LLVM", tools.llvm_version),
        ("ptxas", f"{tools.ptxas_version} ({tools.ptxas_build})"),
        ("libdevice", _bytes(tools.libdevice) if tools.libdevice else "none"),
        ("nvFatbin", _nvfatbin()),
    ))  # fmt: skip


def differences(wanted: Identity, found: Identity) -> list[str]:
    """What is not the same, in words."""
    there = dict(found.parts)
    return [
        f"{name} {there.get(name)} instead of {version}" for name, version in wanted.parts if there.get(name) != version
    ]


def _mlir() -> str:
    version = mlir.version()
    if version != "unknown":
        return version
    # A build of one's own, without a distribution around it: a new one has other files.
    spec = importlib.util.find_spec("mlir")
    places = spec.submodule_search_locations if spec else None
    return _stamps(sorted(file for place in places or () for file in Path(place, "_mlir_libs").glob("*.so*")))


def _stamps(files: list[Path]) -> str:
    def lines() -> Iterator[str]:
        for file in files:
            stat = file.stat()
            yield f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n"

    return hashlib.sha256("".join(lines()).encode()).hexdigest()[:12]


def _nvfatbin() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("nvidia-nvfatbin")
    return "unknown"


def _bytes(file: Path) -> str:
    return hashlib.sha256(fileset.read_file(file)).hexdigest()[:12]
