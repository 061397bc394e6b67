"""A generated tree's wheel: the one that is there, the cache's, or a new one.

In: the tree, written and as a value. Out: a BuiltWheel in the work folder. The key is the digest of the tree's bytes
and of what turns them into a wheel: the C compiler, the C library, Python and the packaging tools.

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
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from aot import ccompiler, codec, fileset, wheel
from aot.cachelevels import Levels
from aot.fileset import FileSet
from aot.stamp import Stamp
from aot.wheel import BuiltWheel

RECORD = "made.json"
_TOOLS = ("build", "scikit-build-core", "cmake", "ninja", "auditwheel")
_VARIABLES = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "ASFLAGS", "CPATH", "LIBRARY_PATH", "C_INCLUDE_PATH")
_PREFIXES = ("CMAKE_", "SKBUILD_")
"""Starts of further environment variables that steer compilers."""


@dataclass(frozen=True)
class Packed:
    """A wheel as the cache keeps it."""

    name: str
    data: bytes
    platform: str
    sdist_name: str = ""
    sdist: bytes = b""


def wheel_of(files: FileSet, tree: Path, folder: Path, options: wheel.Options, levels: Levels) -> BuiltWheel:
    """The wheel of ``files``, which lie in ``tree``; it is made in ``folder``, if it must be."""
    key = _key(files, options)
    stamp = Stamp(folder / RECORD, key)
    made = stamp.read(BuiltWheel)
    if made is None:
        entry = levels.get(key)
        if entry is not None:
            made = _unpacked(codec.decode(entry, Packed), folder)
        else:
            made = wheel.build(tree, folder, options)
            levels.put(key, codec.encode(_packed(made)))
        stamp.write(made, [path for path in (made.wheel, made.sdist) if path])
    return made


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
    for program in (str(ccompiler.find()), shutil.which("as"), shutil.which("ld")):
        if program:
            stat = os.stat(program)
            yield f"{os.path.realpath(program)} {stat.st_size} {stat.st_mtime_ns}"
    yield from (f"{name}={os.environ[name]}" for name in sorted(os.environ) if _steers(name))


def _steers(name: str) -> bool:
    return name in _VARIABLES or name.startswith(_PREFIXES)


def _key(files: FileSet, options: wheel.Options) -> str:
    digest = hashlib.sha256(f"{identity()} {options}".encode())
    for path in sorted(files):
        digest.update(f"{path}\0{hashlib.sha256(files[path]).hexdigest()}\n".encode())
    return digest.hexdigest()


def _packed(made: BuiltWheel) -> Packed:
    sdist = fileset.read_file(made.sdist) if made.sdist else b""
    name = made.sdist.name if made.sdist else ""
    return Packed(made.wheel.name, fileset.read_file(made.wheel), made.platform, name, sdist)


def _unpacked(entry: Packed, folder: Path) -> BuiltWheel:
    fileset.write_file(folder / entry.name, entry.data)
    if entry.sdist_name:
        fileset.write_file(folder / entry.sdist_name, entry.sdist)
    sdist = folder / entry.sdist_name if entry.sdist_name else None
    return BuiltWheel(
        folder / entry.name, hashlib.sha256(entry.data).hexdigest(), len(entry.data), entry.platform, sdist
    )
