"""The runtime's objects, the same in each package: compiled once, beside the jobs of the first build that needs them.

In: the caches, and a wheel's folder. Out: a folder with an object for each unit of the runtime, for CMake
(``AOT_RUNTIME``): the bytes that it would make itself.

>>> Runtime(Levels(), Path("build/wheel")).folder()   # doctest: +SKIP
PosixPath('/home/me/build/wheel/runtime')
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from aot import codec, fileset, process, resources
from aot.engine import scratch
from aot.engine.cachelevels import Levels
from aot.engine.stamp import Stamp
from aot.errors import PackageError
from aot.tools import ccompiler, packid
from aot.wheels import runtimeunits

_ABI = "-DPy_LIMITED_API=0x030a0000"
_STEERING = ("CMAKE_ARGS", "CMAKE_TOOLCHAIN_FILE")
_PREFIX = "SKBUILD_"
"""Variables, and a start of variables, by which CMake may compile otherwise than we would."""
_ENDING_SECONDS = 2.0
"""How long the end of a stopped compiler is waited for."""
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
    _entry: Future[Objects | None] | None = None
    """None in it: the folder has them."""
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Has them looked for, or compiled, beside whatever is done meanwhile."""
        if self._entry is None and not _is_steered():
            self._entry = Future()
            # A shared cache may keep the thread longer than a build that has failed wants to wait.
            threading.Thread(target=self._make, args=(self._entry,), daemon=True).start()

    def check(self) -> None:
        """PackageError, or what else it was, where they are known to have failed: there will be no package."""
        if self._entry is not None and self._entry.done():
            self._entry.result()

    def close(self) -> None:
        """The build is over: a compiler that is still at work is stopped, and has gone when this ends."""
        self._over.set()
        if self._entry is not None:
            futures.wait([self._entry], _ENDING_SECONDS)

    def folder(self) -> Path | None:
        """The objects' folder; None where CMake is steered, and compiles them itself. PackageError if that fails."""
        self.begin()
        if self._entry is None:
            return None
        objects, made = self.place / "runtime", self._entry.result()
        if made is not None:
            fileset.write_tree(dict(zip(made.names, made.data, strict=True)), objects)
            self._stamp.write("", [objects / name for name in made.names])
        return objects.resolve()

    def _make(self, entry: Future[Objects | None]) -> None:
        try:
            entry.set_result(None if self._stamp.read(str) is not None else self._objects())
        except BaseException as error:  # raised where the objects are waited for
            entry.set_exception(error)

    def _objects(self) -> Objects:
        """The cache's, or new ones."""
        found = self.levels.get(self._key)
        if found is not None:
            return codec.decode(found, Objects)
        # Not in the work folder, where jobs may be short of space.
        with scratch.folder("runtime") as folder:
            made = _compiled(folder, self._stopped)
        self.levels.put(self._key, codec.encode(made))
        return made

    def _stopped(self) -> str:
        return "the build is over" if self._over.is_set() else ""

    @functools.cached_property
    def _key(self) -> str:
        """The digest of what the objects are made from, and with."""
        made_with = f"{packid.identity()} {ccompiler.FLAGS}"
        return hashlib.sha256(f"runtime {made_with} {resources.digest(resources.templates())}".encode()).hexdigest()

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.place / "runtime.json", self._key)


def _compiled(folder: Path, stop: Callable[[], str]) -> Objects:
    """The units' objects, compiled side by side."""
    names = [path.name for path in (resources.templates() / "runtime").iterdir()]
    texts = {f"{unit}.c": text.encode() for unit, text in runtimeunits.texts(names).items()}
    fileset.write_tree(texts, folder)
    with ThreadPoolExecutor() as threads:
        objects = tuple(threads.map(lambda name: _object(folder / name, stop), texts))
    return Objects(tuple(f"{name}.o" for name in texts), objects)


def _object(unit: Path, stop: Callable[[], str]) -> bytes:
    made = unit.with_suffix(".c.o")
    folders = (resources.templates(), resources.templates() / "runtime", ccompiler.python_headers())
    command = [*ccompiler.command(), _ABI, *(f"-I{folder}" for folder in folders), "-c", str(unit), "-o", str(made)]
    done = process.watch(command, stop, group=True)
    if done.returncode:
        said = "\n".join(done.words().splitlines()[-_SHOWN:])
        what = f"the C runtime cannot be compiled: `{' '.join(command[:2])} …` failed"
        raise PackageError(f"{what}\n{said}", hint="correct what CC and CFLAGS say, or set CC to another C compiler")
    return fileset.read_file(made)


def _is_steered() -> bool:
    return any(name in _STEERING or name.startswith(_PREFIX) for name in os.environ)
