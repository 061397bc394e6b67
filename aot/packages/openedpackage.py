"""A built package, opened for inspection: its manifest and its blobs.

In: a wheel, the folder of an installed package or of its tree, or an extension alone. Out: Opened.
A blob is found in the extension by a fatbin's magic number and known by the hash in the manifest,
so that neither symbols nor sections need to be there.

>>> open_package("dist/demo-1.0-cp310-abi3-linux_x86_64.whl").manifest["package"]   # doctest: +SKIP
'demo'
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot import fileset
from aot.errors import AotError, LoweringError, MismatchError, UsageError
from aot.fatbins import fatbin
from aot.packages import manifest, splitfront
from aot.packages.manifest import FILE

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError)
"""What zipfile raises for archives that were changed: also for encryption, methods and names that no wheel has."""
_HEADER = struct.Struct("<IHHQ")
_MAGIC = b"\x50\xed\x55\xba"


@dataclass(frozen=True)
class Blob:
    """One fatbin."""

    source: str
    """Namespace it belongs to; its number when there is no manifest."""
    data: bytes
    entries: tuple[fatbin.Entry, ...]


@dataclass(frozen=True)
class Opened:
    """What was found at a path."""

    path: str
    manifest: Mapping[str, Any] | None
    """The document of docs/design.md; None for an extension that lies alone."""
    blobs: tuple[Blob, ...]
    extension_bytes: int


@dataclass(frozen=True)
class _Files:
    """The two files that matter, wherever they lie."""

    manifest: bytes | None
    extension: bytes


def open_package(path: str) -> Opened:
    """Opens whatever ``path`` is; UsageError when it is nothing of ours."""
    place = Path(path)
    if not place.exists():
        raise UsageError(
            f"'{path}' does not exist", hint="name a wheel, the folder of a package, or its extension (.so)"
        )
    if place.is_dir():
        files = _folder(place)
    elif place.suffix == ".whl":
        files = _wheel(place)
    elif place.suffix == ".so":
        files = _extension(place)
    else:
        raise UsageError(f"'{path}' is neither a wheel, a folder nor an extension (.so)")
    found = None if files.manifest is None else manifest.read(files.manifest, path)
    return Opened(path, found, tuple(_blobs(files.extension, found, path)), len(files.extension))


def _wheel(path: Path) -> _Files:
    with opened_wheel(path) as archive:
        names = archive.namelist()
        fronts = [name for name in names if name.rpartition("/")[2] == splitfront.CONTENTS]
        if fronts:
            raise splitfront.refusal(str(path), archive.read(fronts[0]))
        about = _only([name for name in names if name.rpartition("/")[2] == FILE], FILE, path)
        extension = _only([name for name in names if name.endswith(".so")], "extension (*.so)", path)
        return _Files(archive.read(about), archive.read(extension))


@contextlib.contextmanager
def opened_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel whose files are read in the block; AotError where it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _DAMAGE as error:
        raise AotError(f"'{path}' cannot be read as a wheel: {error}") from error


def _folder(path: Path) -> _Files:
    wheels = sorted(path.glob("*.whl"))
    if len(wheels) == 1:
        return _wheel(wheels[0])
    if wheels:
        raise UsageError(f"'{path}' holds {len(wheels)} wheels", hint=f"name one, such as {wheels[-1]}")
    found = [path / FILE] if (path / FILE).is_file() else sorted(path.glob(f"*/{FILE}"))
    if not found:
        splitfront.check(path, str(path))
    about = Path(_only([str(each) for each in found], FILE, path))
    package = about.parent
    places = (package, package.parent)
    extensions = [each for place in places for each in sorted(place.glob(f"_{package.name}*.so"))]
    return _Files(fileset.read_file(about), fileset.read_file(Path(_only(map(str, extensions), "*.so", path))))


def _extension(path: Path) -> _Files:
    """The manifest lies beside it, or in the package folder beside it."""
    package = path.name.lstrip("_").partition(".")[0]
    places = (path.parent / FILE, path.parent / package / FILE)
    about = next((fileset.read_file(place) for place in places if place.is_file()), None)
    return _Files(about, fileset.read_file(path))


def _only(found: Sequence[str] | Iterator[str], what: str, path: Path) -> str:
    names = list(found)
    if len(names) != 1:
        number = f"{len(names)} of them: {', '.join(names[:4])}" if names else "none"
        raise UsageError(f"'{path}' is not one package made by aot: {what}: {number}")
    return names[0]


def _blobs(extension: bytes, about: Mapping[str, Any] | None, path: str) -> Iterator[Blob]:
    """The fatbins of an extension; with a manifest, exactly those that it names."""
    found = list(_fatbins(extension))
    if about is None:
        for number, data in enumerate(found):
            yield Blob(str(number), data, fatbin.entries(data))
        return
    by_hash = {hashlib.sha256(data).hexdigest(): data for data in found}
    for module in about["modules"]:
        if not module.get("blob_bytes"):
            continue
        blob = by_hash.get(module["blob_sha256"]) or _by_size(extension, module)
        if blob is None:
            raise MismatchError(
                f"'{path}': the blob of '{module['name']}' is not in the extension as the manifest says"
            )
        yield Blob(module["name"], blob, fatbin.entries(blob))


def _by_size(extension: bytes, module: Mapping[str, Any]) -> bytes | None:
    """A fatbin that goes on behind its header's size (a ready one of another tool may be padded)."""
    size = module["blob_bytes"]
    for start in _starts(extension):
        data = extension[start : start + size]
        if hashlib.sha256(data).hexdigest() == module["blob_sha256"]:
            return data
    return None


def _starts(data: bytes) -> Iterator[int]:
    start = data.find(_MAGIC)
    while start >= 0:
        yield start
        start = data.find(_MAGIC, start + 1)


def _fatbins(data: bytes) -> Iterator[bytes]:
    """Every whole fatbin in ``data``; four bytes that only look like one are passed over."""
    for start in _starts(data):
        if start + _HEADER.size > len(data):
            return
        _, _, header, size = _HEADER.unpack_from(data, start)
        blob = data[start : start + header + size]
        try:
            fatbin.entries(blob)
        except (LoweringError, struct.error):
            continue
        yield blob
