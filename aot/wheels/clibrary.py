"""A static library of a package's functions, for C and C++ programs: ``aot build --c``.

In: the generated tree on disk. Out: ``lib<name>.a`` and ``<name>.h``. Nothing of Python is in it; all objects are
joined into one, in which only the functions of the header have names that others see, so that two packages can be
linked together.

>>> build(Path("build/tree"), Path("build/c"), "kernels")                      # doctest: +SKIP
(PosixPath('build/c/kernels.h'), PosixPath('build/c/libkernels.a'))
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from aot import fileset, process
from aot.errors import PackageError, ToolMissing
from aot.tools import ccompiler

_TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
_SHOWN = 40
"""Lines of a failed command that are shown."""


def build(tree: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """Compiles the tree's C files and host code, and returns the header and the library."""
    fileset.make_folder(folder)
    for old in folder.iterdir():
        fileset.remove(old)
    compiler = ccompiler.command()
    triple = _TRIPLES[platform.machine()]
    csrc = tree / "csrc"
    sources = [csrc / "core.c", *sorted(csrc.glob("tables*.c")), csrc / "c_functions.c", *sorted(csrc.glob("blobs*.S"))]
    sources += sorted(path for path in (tree / "host").glob("*.s") if f"-{triple}" in path.name)
    objects = [folder / f"{number}.o" for number in range(len(sources))]
    flags = [f"-I{csrc / 'runtime'}", f"-I{tree / 'blobs'}", f"-ffile-prefix-map={tree}=."]
    for source, made in zip(sources, objects, strict=True):
        _run(*compiler, *flags, "-c", str(source), "-o", str(made), cwd=folder)
    joined, library = folder / f"{name}.o", folder / f"lib{name}.a"
    _run(*compiler, "-r", "-nostdlib", *map(str, objects), "-o", str(joined), cwd=folder)
    _run(_tool("objcopy"), "--localize-hidden", str(joined), cwd=folder)
    _run(_tool("ar"), "rcsD", str(library), str(joined), cwd=folder)
    header = folder / f"{name}.h"
    fileset.write_file(header, fileset.read_file(tree / "include" / header.name))
    return header, library


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"--c needs {name}, which is not found", hint="it is part of binutils, as the assembler is")
    return found


def _run(*command: str, cwd: Path) -> None:
    done = process.run(list(command), cwd=cwd)
    if done.returncode:
        said = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
        raise PackageError(f"`{' '.join(command[:2])} …` failed\n" + "\n".join(said[-_SHOWN:]))
