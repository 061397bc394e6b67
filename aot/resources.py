"""Finds the files that travel with the tool: ``templates/``, ``build_rules/`` and ``examples/``.

In a checkout they lie beside the package ``aot``, in an installed wheel inside it.

>>> (build_rules() / "compile.ninja").is_file()
True
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from aot.errors import ToolMissing

PACKAGE = Path(__file__).resolve().parent


def templates() -> Path:
    """The folder of templates that generated packages are made from."""
    return _folder("templates")


def build_rules() -> Path:
    """The folder of ninja rules that drive the tool's own work."""
    return _folder("build_rules")


def examples() -> Path:
    """The folder of examples: ``kernels/``, and ``references.py`` with what they compute."""
    return _folder("examples")


@functools.cache
def digest(folder: Path, pattern: str = "*") -> str:
    """The digest of all files in a folder whose names fit, by their paths in it; they are read once in a process."""
    found = hashlib.sha256()
    for file in sorted(path for path in folder.rglob(pattern) if path.is_file() and not path.name.startswith(".")):
        data = file.read_bytes()
        found.update(f"{file.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()


def _folder(name: str) -> Path:
    for folder in (PACKAGE / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise ToolMissing(
        f"the folder '{name}' of aot is missing: looked in '{PACKAGE}' and '{PACKAGE.parent}'",
        hint="the installation is damaged; install aot again",
    )
