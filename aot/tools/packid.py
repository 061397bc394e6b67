"""What turns a generated tree into a wheel, by versions and files: another compiler, another wheel.

In: this machine. Out: a digest.

>>> len(identity())
64
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata

from aot.tools import ccompiler

_TOOLS = ("scikit-build-core", "cmake", "ninja", "auditwheel")
_VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ASFLAGS", "CPATH", "LIBRARY_PATH", "C_INCLUDE_PATH")
_PREFIXES = ("CMAKE_", "SKBUILD_")
"""Starts of further environment variables that steer compilers."""


def identity() -> str:
    """The digest of what turns a tree into a wheel."""
    return hashlib.sha256("\n".join(_parts()).encode()).hexdigest()


def _parts() -> Iterator[str]:
    yield f"{sys.version} {platform.machine()} {' '.join(platform.libc_ver())}"
    for name in _TOOLS:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"{name} from elsewhere"
    for program in filter(None, (*ccompiler.programs(), shutil.which("as"), shutil.which("ld"))):
        stat = os.stat(program)
        yield f"{os.path.realpath(program)} {stat.st_size} {stat.st_mtime_ns}"
    yield from (f"{name}={os.environ[name]}" for name in sorted(os.environ) if _steers(name))


def _steers(name: str) -> bool:
    return name in _VARIABLES or name.startswith(_PREFIXES)
