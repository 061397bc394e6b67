"""Builds the wheel of a generated tree, and checks what came out.

In: the tree on disk. Out: a wheel with the platform tag that auditwheel computes, byte-identical for the same tree.
The build backend is scikit-build-core with ninja, called in a fork of this process: the extra ``build`` of aot installs
both.

>>> build(Path("build/tree"), Path("build/wheel")).wheel.name                 # doctest: +SKIP
'kernels-1.0-cp310-abi3-manylinux_2_34_x86_64.whl'
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot import fileset
from aot.engine import forked
from aot.engine.stamp import Stamp
from aot.errors import PackageError, ToolMissing
from aot.tools import ccompiler, packid
from aot.tools.freethreaded import FreeThreaded
from aot.wheels import rawzip, renewal
from aot.wheels.rawzip import Pieces
from aot.wheels.wheelfile import Members, archive, bindings, extension_of, ours, problems, retagged

_MODULES = ("scikit_build_core", "auditwheel", "elftools")
"""What a build needs in this Python; cmake and ninja are asked for by scikit-build-core."""
_PROGRESS = re.compile(r"-- |\[\d+/\d+\] |\*+ |TIP ")
_SHOWN = 60
"""Lines of a failed build that are shown."""
_SETTINGS = {"NO_COLOR": "1", "LC_ALL": "C", "PYTHONSAFEPATH": "1"}
_ABI = ".abi3."
"""In the file name of an extension for every ordinary Python."""
BUILT = "cmake"
"""CMake's folder in that of the wheel."""
_CONFIGURED = ("CMakeCache.txt", "build.ninja")
"""Files of it without which nothing is built there."""


@dataclass(frozen=True)
class Options:
    """What is asked for beside the tree."""

    sdist: bool = False
    pure: bool = False
    """The tree has no extension."""
    python: FreeThreaded | None = None
    """Whom the wheel is for, instead of every ordinary Python from 3.10 on."""
    epoch: int = 315532800
    """Date of all files, in seconds; the default is the first that a zip file can hold."""
    runtime: Path | None = None
    """Folder with the runtime's objects, when they are there already."""


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel on disk."""

    wheel: Path
    sha256: str
    bytes: int
    platform: str
    """As auditwheel computed it: ``manylinux_2_34_x86_64``."""
    sdist: Path | None = None


def build(tree: Path, folder: Path, options: Options = Options()) -> BuiltWheel:
    """Builds the tree's wheel (and source distribution) into ``folder``; PackageError when either fails a check."""
    _check_tools()
    raw, members = _raw(tree.resolve(), folder.resolve(), options)
    made = raw.parent
    platform = "any" if options.pure else _checked(tree, raw, members, options.python)
    name, members = retagged(raw.name, members, f"{_tag(raw, options)}-{platform}")
    data = archive(members, options.epoch)
    fileset.write_file(folder / name, data)
    sdist = _one(made, "*.tar.gz") if options.sdist else None
    return BuiltWheel(folder / name, hashlib.sha256(data).hexdigest(), len(data), platform, sdist)


@dataclass(frozen=True)
class _Made:
    """What is remembered of the backend's wheel."""

    name: str
    pieces: dict[str, Pieces]
    """Of its large files."""


def _raw(tree: Path, folder: Path, options: Options) -> tuple[Path, Members]:
    """The backend's wheel, or the one that it would make."""
    built = folder / (f"{BUILT}-{options.python.tag}" if options.python else BUILT)
    made = fileset.make_folder(folder / "made")
    if options.pure:
        raw = _backend(tree, made, options, built)
        return raw, rawzip.read(fileset.read_file(raw))
    stamp = Stamp(folder / "backend.json", f"pieces {packid.identity()} {options} {renewal.recipe(tree)}")
    members, configured = None, all((built / each).is_file() for each in _CONFIGURED)
    before = stamp.read(_Made) if configured else None
    if not configured:
        fileset.remove(built)  # what is left of it, a folder in a file's place, say, would be in CMake's way
    if before is not None and not options.sdist:
        members = renewal.wheel(tree, built, rawzip.read(fileset.read_file(made / before.name), before.pieces))
    raw = _backend(tree, made, options, built) if before is None or members is None else made / before.name
    members = members or ours(rawzip.read(fileset.read_file(raw)))
    fileset.write_file(raw, archive(members, options.epoch))
    pieces = {path: each.pieces for path, each in members.items() if each.pieces}
    stamp.write(_Made(raw.name, pieces), [raw])
    return raw, members


def _tag(raw: Path, options: Options) -> str:
    """Python and ABI of the wheel."""
    return options.python.tag if options.python else "-".join(raw.stem.split("-")[-3:-1])


def _check_tools() -> None:
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolMissing(
            f"building a wheel needs {', '.join(missing)} in {sys.executable}",
            hint="install aot with its tools: pip install 'aot[build]'",
        )


def _backend(tree: Path, made: Path, options: Options, built: Path) -> Path:
    """The wheel of scikit-build-core, alone in ``made``; it builds the tree by the hooks that every frontend calls.

    The build folder is kept: what is the same in the next build is not compiled again. Another Python than ours is
    CMake's business alone: nothing has to be installed in it.
    """
    for old in made.iterdir():
        fileset.remove(old)
    # Named also when it is empty, since CMake remembers.
    settings = {"build-dir": str(built), "cmake.define.AOT_RUNTIME": str(options.runtime or "")}
    # Its own look at Python imports NumPy, for the place of that one's headers.
    settings["cmake.python-hints"] = "false"
    settings["cmake.define.Python_INCLUDE_DIR"] = (
        options.python.include if options.python else ccompiler.python_headers()
    )
    if options.python:
        settings["cmake.define.SKBUILD_SOABI"] = options.python.abi
        settings["cmake.define.SKBUILD_SABI_COMPONENT"] = ""

    def work() -> None:
        os.chdir(tree)
        os.environ["SOURCE_DATE_EPOCH"] = str(options.epoch)
        backend = importlib.import_module("scikit_build_core.build")
        backend.build_wheel(str(made), settings)
        if options.sdist:
            backend.build_sdist(str(made), settings)

    _ended("scikit-build-core", _begin(work))
    return _one(made, "*.whl")


def _begin(work: Callable[[], None]) -> forked.Child:
    """Begins what changes folders, prints and exits as programs do, without the start of a program."""

    def compute(mark: forked.Mark) -> bytes:
        os.environ.update(_SETTINGS)
        printed, code = io.StringIO(), 0
        with contextlib.redirect_stdout(printed):
            try:
                work()
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
        sys.stderr.flush()
        return f"{code}\n{printed.getvalue()}".encode()

    return forked.start(compute)


def _ended(name: str, child: forked.Child) -> bytes:
    """What it printed; its words become the error when it failed.

    Compilers and CMake speak on both of its streams, so both are shown.
    """
    outcome = forked.finish(child)
    code, _, printed = (outcome.data or b"1\n").partition(b"\n")
    if code == b"0":
        return printed
    lines = (printed + outcome.done.stderr).decode("utf-8", "replace").splitlines()
    said = [line for line in lines if not _PROGRESS.match(line)]
    raise PackageError(
        f"{name} failed with exit code {code.decode()}\n" + "\n".join(said[-_SHOWN:]).strip(),
        hint="the generated package stays in the work folder, as `tree`: `pip install -v` of it shows everything",
    )


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"the build left {len(found)} files {pattern} in '{folder}', expected one")
    return found[0]


def _checked(tree: Path, raw: Path, members: Members, python: FreeThreaded | None) -> str:
    """The platform of a wheel. auditwheel is asked again only when the extension is bound to other symbols."""
    name, library = extension_of(members)
    stamp = Stamp(raw.parent.parent / "platform.json", f"{packid.identity()} {bindings(library)}")
    platform = stamp.read(str)
    # At the same time, in two processes.
    asked = _begin(lambda: _show(raw.resolve())) if platform is None else None
    try:
        _check(tree, name, library, _ABI if python is None else f".cpython-{python.tag.partition('-cp')[2]}-")
    finally:
        printed = _ended("auditwheel", asked) if asked else b""
    if platform is None:
        platform = _platform(json.loads(printed))
        stamp.write(platform, [])
    return platform


def _show(raw: Path) -> None:
    sys.argv = ["auditwheel", "show", "--json", str(raw)]
    runpy.run_module("auditwheel", run_name="__main__")


def _platform(report: Mapping[str, Any]) -> str:
    outside = sorted(report["external_libs"])
    if outside:
        raise PackageError(f"the extension links {', '.join(outside)}, which the wheel does not carry")
    return str(report["overall_tag"])


def _check(tree: Path, name: str, library: bytes, abi: str) -> None:
    blobs = {path.name: fileset.read_file(path) for path in sorted((tree / "blobs").glob("*.fatbin"))}
    found = problems(name.partition(".")[0], library, blobs)
    if abi not in name:
        found.append(f"it is not for the ABI '{abi.strip('.-')}'")
    if found:
        raise PackageError(f"the extension {name} is not what it should be\n  " + "\n  ".join(found))
