"""The runtime's objects, the same in each package: compiled once, beside the jobs of the first build that needs them.

In: the caches, and a wheel's folder. Out: a folder with an object for each unit of the runtime, for CMake
(``AOT_RUNTIME``): the bytes that it would make itself.

>>> Runtime(Levels(), Path("build/wheel")).folder()   # doctest: +SKIP
PosixPath('/home/me/build/wheel/runtime')
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aot import ccompiler, codec, fileset, packid, process, resources, runtimeunits, scratch
from aot.cachelevels import Levels
from aot.errors import PackageError
from aot.stamp import Stamp

_ABI = "-DPy_LIMITED_API=0x030a0000"
_STEERING = ("CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE")
_PREFIX = "SKBUILD_"
"""Variables, and a start of variables, by which CMake may compile otherwise than we would."""
_SHOWN = 40
"""Lines of a failed command that are shown."""


@dataclass(frozen=True)
class Objects:
    """An entry of the cache."""

    names: tuple[str, ...]
    data: tuple[bytes, ...]


@dataclass
class Runtime:
    """The objects of one build, for ordinary Pythons."""

    levels: Levels
    place: Path
    """Folder of the wheel."""
    _compiling: Future[Objects] | None = None

    def begin(self) -> None:
        """Has compiled, beside whatever is done meanwhile, what neither the wheel's folder nor the cache holds."""
        if self._compiling is None and not _is_steered() and not self._found():
            self._compiling = Future()
            threading.Thread(target=_compile, args=(self._compiling,)).start()

    def folder(self) -> Path | None:
        """The objects' folder; None where CMake is steered, and compiles them itself. PackageError if that fails."""
        self.begin()
        if self._compiling is not None:
            made = self._compiling.result()
            self._write(made)
            self.levels.put(_key(), codec.encode(made))
            self._compiling = None
        return None if _is_steered() else self._objects.resolve()

    @property
    def _objects(self) -> Path:
        return self.place / "runtime"

    def _stamp(self) -> Stamp:
        return Stamp(self.place / "runtime.json", _key())

    def _found(self) -> bool:
        """Whether the folder has them, or has them now."""
        if self._stamp().read(str) is not None:
            return True
        entry = self.levels.get(_key())
        if entry is not None:
            self._write(codec.decode(entry, Objects))
        return entry is not None

    def _write(self, made: Objects) -> None:
        fileset.write_tree(dict(zip(made.names, made.data, strict=True)), self._objects)
        self._stamp().write("", [self._objects / name for name in made.names])


def _compile(made: Future[Objects]) -> None:
    try:
        # Not in the work folder, where jobs may be short of space.
        with scratch.folder("runtime") as folder:
            made.set_result(_compiled(folder))
    except BaseException as error:  # raised where the objects are waited for
        made.set_exception(error)


def _compiled(folder: Path) -> Objects:
    """The units' objects, compiled side by side."""
    names = [path.name for path in (resources.templates() / "runtime").iterdir()]
    texts = {f"{unit}.c": text.encode() for unit, text in runtimeunits.texts(names).items()}
    fileset.write_tree(texts, folder)
    with ThreadPoolExecutor() as threads:
        objects = tuple(threads.map(lambda name: _object(folder / name), texts))
    return Objects(tuple(f"{name}.o" for name in texts), objects)


def _object(unit: Path) -> bytes:
    made = unit.with_suffix(".c.o")
    folders = (resources.templates(), resources.templates() / "runtime", ccompiler.python_headers())
    command = [*ccompiler.command(), _ABI, *(f"-I{folder}" for folder in folders), "-c", str(unit), "-o", str(made)]
    done = process.run(command)
    if done.returncode:
        said = "\n".join(done.words().splitlines()[-_SHOWN:])
        raise PackageError(f"the C runtime cannot be compiled: `{' '.join(command[:2])} …` failed\n{said}")
    return fileset.read_file(made)


def _is_steered() -> bool:
    return any(name in _STEERING or name.startswith(_PREFIX) for name in os.environ)


def _key() -> str:
    """The digest of what they are made from, and with."""
    made_with = f"{packid.identity()} {ccompiler.FLAGS}"
    return hashlib.sha256(f"runtime {made_with} {resources.digest(resources.templates())}".encode()).hexdigest()
