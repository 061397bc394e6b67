"""A generated tree's wheel: the one that is there, the cache's, or a new one.

In: the tree, written and as a value. Out: a BuiltWheel in the work folder. The key is the digest of the tree's bytes
and of what turns them into a wheel: the C compiler, the C library, Python and the packaging tools.

>>> wheel_of(files, tree, folder, wheel.Options(), Runtime(Levels(), folder)).wheel.name   # doctest: +SKIP
'kernels-0.1.0-cp310-abi3-manylinux_2_34_x86_64.whl'
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

from aot import codec, fileset
from aot.engine.stamp import Stamp
from aot.fileset import FileSet
from aot.tools import packid
from aot.wheels import wheel
from aot.wheels.runtimeobjects import Runtime
from aot.wheels.wheel import BuiltWheel

RECORD = "made.json"


@dataclass(frozen=True)
class Packed:
    """A wheel as the cache keeps it."""

    name: str
    data: bytes
    platform: str
    sdist_name: str = ""
    sdist: bytes = b""


def wheel_of(files: FileSet, tree: Path, folder: Path, options: wheel.Options, runtime: Runtime) -> BuiltWheel:
    """The wheel of ``files``, which lie in ``tree``; it is made in ``folder``, if it must be."""
    key = _key(files, options)
    stamp = Stamp(folder / RECORD, key)
    made = stamp.read(BuiltWheel)
    if made is None:
        entry = runtime.levels.get(key)
        if entry is not None:
            made = _unpacked(codec.decode(entry, Packed), folder)
        else:
            made = fresh(tree, folder, options, runtime)
            runtime.levels.put(key, codec.encode(_packed(made)))
        stamp.write(made, [path for path in (made.wheel, made.sdist) if path])
    return made


def fresh(tree: Path, folder: Path, options: wheel.Options, runtime: Runtime) -> BuiltWheel:
    """A new wheel; for a free-threaded Python CMake compiles the runtime in it."""
    ordinary = not options.pure and options.python is None
    return wheel.build(tree, folder, dataclasses.replace(options, runtime=runtime.folder() if ordinary else None))


def _key(files: FileSet, options: wheel.Options) -> str:
    digest = hashlib.sha256(f"{packid.identity()} {options}".encode())
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
