"""Finds the sources of a build.

In: folders and files as the user gave them. Out: SourceFile values, sorted by name, and
UsageError or SourceError that list every problem at once.

>>> discover(["kernels/"])   # doctest: +SKIP
(SourceFile(name='softmax', path='kernels/softmax.mlir', data=b'...', transform=None),)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import fileset, naming
from aot.errors import AotError, DiskError, PackageError, SourceError, UsageError

TEXT, BYTECODE, TRANSFORM = ".mlir", ".mlirbc", ".transform.mlir"
BYTECODE_MAGIC = b"ML\xefR"
LATER = {".py": "Python generators are not supported yet; write the module to a .mlir file"}
"""Suffixes that are refused with a reason when a file of theirs is named."""


@dataclass(frozen=True)
class SourceFile:
    """A source as found on disk, before MLIR has seen it."""

    name: str
    path: str
    data: bytes
    """Text or bytecode."""
    transform: str | None = None
    """Path of ``<name>.transform.mlir`` when there is one."""


def discover(paths: Sequence[str]) -> tuple[SourceFile, ...]:
    """All sources in ``paths``: every folder's own files (not those of its sub-folders), every named file."""
    if not all(paths):
        raise UsageError("SRC is empty", hint="SRC is a *.mlir or *.mlirbc file, or a folder of them")
    files = list(dict.fromkeys(file for path in paths for file in _files(Path(path))))
    by_name: dict[str, list[str]] = defaultdict(list)
    problems: list[AotError] = []
    found: list[SourceFile] = []
    for file in files:
        try:
            source = read(file)
        except (SourceError, PackageError, DiskError) as error:
            problems.append(error)
            continue
        by_name[source.name].append(source.path)
        found.append(source)
    if problems:
        raise _together(problems)
    naming.check_namespaces(by_name)
    return tuple(sorted(found, key=lambda source: source.name))


def names_in(folder: Path) -> tuple[str, ...]:
    """Namespaces that the files of a folder have or would have, whether or not they are built."""
    return tuple(naming.spelled(_stem(file)) for file in sorted(folder.iterdir()) if _is_source(file))


def read(file: Path) -> SourceFile:
    """One source, with the checks that need no MLIR."""
    strange = naming.UNTOLD.search(str(file.absolute()))
    if strange:
        raise SourceError(
            f"{str(file)!r}: its path has {strange[0]!r}, which is no part of UTF-8 text in a line",
            hint="rename the file or its folder",
        )
    stem = _stem(file)
    try:
        name = naming.namespace(stem)
    except PackageError as error:
        raise PackageError(f"{file}: {error.message}", hint=error.hint) from None
    if file.exists() and not file.is_file():
        raise SourceError(f"{file}: not a regular file")
    data = fileset.read_file(file)
    if not data.strip():
        raise SourceError(f"{file}: the file is empty", hint="a source holds at least one function or gpu.module")
    if not data.startswith(BYTECODE_MAGIC):
        _check_text(file, data)
    transform = file.with_name(stem + TRANSFORM)
    return SourceFile(name, str(file), data, str(transform) if transform.is_file() else None)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        try:
            inside = sorted(path.iterdir())
        except OSError as error:
            raise DiskError(f"cannot read the folder '{path}': {error.strerror}") from error
        found = [file for file in inside if _is_source(file)]
        if not found:
            raise SourceError(
                f"no sources in '{path}': no *.mlir or *.mlirbc file there{_elsewhere(path)}",
                hint="name the folder that holds them, or start with `aot new NAME`",
            )
        _check_scripts(inside)
        return found
    if not path.exists():
        raise UsageError(f"'{path}' does not exist", hint="SRC is a *.mlir or *.mlirbc file, or a folder of them")
    if path.name.endswith(TRANSFORM):
        raise UsageError(f"'{path}' is a transform script, not a source", hint="it is read together with its source")
    if path.suffix not in (TEXT, BYTECODE):
        raise UsageError(f"'{path}' is no source: {LATER.get(path.suffix, 'sources end in .mlir or .mlirbc')}")
    if not path.is_file():
        raise UsageError(f"'{path}' is not a regular file")
    return [path]


def _check_scripts(files: Sequence[Path]) -> None:
    """A transform script belongs to a source of its name; one that is used by nothing is a mistake."""
    stems = {_stem(file) for file in files if _is_source(file)}
    for file in files:
        if file.name.endswith(TRANSFORM) and not file.name.startswith("."):
            stem = file.name.removesuffix(TRANSFORM)
            if stem not in stems:
                raise SourceError(
                    f"{file}: a transform script of no source: there is no '{stem}.mlir' beside it",
                    hint="a script runs on the source of its own name",
                )


def _stem(file: Path) -> str:
    return file.name.removesuffix(BYTECODE if file.name.endswith(BYTECODE) else TEXT)


def _is_source(file: Path) -> bool:
    name = file.name
    # A broken link or a pipe counts: leaving it out without a word would hide a mistake.
    is_file = not file.is_dir()
    return is_file and not name.startswith(".") and name.endswith((TEXT, BYTECODE)) and not name.endswith(TRANSFORM)


def _elsewhere(path: Path) -> str:
    """A remark when the sources seem to lie one level deeper."""
    deeper = sorted({file.parent.name for file in path.glob("*/*") if _is_source(file)})
    return f" (but in its sub-folders: {', '.join(deeper[:5])})" if deeper else ""


def _check_text(file: Path, data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{file}:{line}: not UTF-8 text and not MLIR bytecode (byte 0x{data[error.start]:02x})",
            hint="save it as UTF-8; bytecode begins with the bytes 'ML\\xefR'",
        ) from error
    if text.startswith("\ufeff"):
        raise SourceError(f"{file}:1: begins with a byte order mark", hint="save it as UTF-8 without one")
    if "\0" in text:
        raise SourceError(f"{file}: holds NUL bytes: neither text nor MLIR bytecode")


def _together(problems: Sequence[AotError]) -> AotError:
    """One error that shows all of them."""
    if len(problems) == 1:
        return problems[0]
    return SourceError(f"{len(problems)} sources cannot be used\n" + "\n".join(problem.text() for problem in problems))
