"""A folder of entries that are found by what they were made from: the cache of compiled sources and wheels.

In: a key (hexadecimal, the digest of everything that an entry depends on) and bytes. Out: the same bytes, or None.
An entry is one file with its digest in front, written under another name and renamed. So builds may share a folder, a
build may be killed at any moment, and a damaged entry is one that is not there. Losing the folder costs time only.

>>> with tempfile.TemporaryDirectory() as folder:
...     store = Store(Path(folder), limit=1000)
...     store.put("ab12", b"data"), store.get("ab12"), store.get("cd34")
(True, b'data', None)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from aot import errors, fileset, naming
from aot.errors import DiskError, UsageError

FOLDER_VARIABLE, LIMIT_VARIABLE, OFF = "AOT_CACHE", "AOT_CACHE_LIMIT", "off"
DEFAULT_LIMIT = "5G"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MAGIC = b"aot cache entry 1\n"
_DIGEST = 32
_KEPT = 0.8
"""Share of the limit that is left when entries are dropped, so that not every build has to."""
_STALE_SECONDS = 3600
"""A file that is still being written after this time was left by a build that was killed."""


@dataclass(frozen=True)
class Usage:
    """What a cache holds."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """One folder of entries."""

    folder: Path
    limit: int = UNITS["T"]
    """In bytes; ``prune`` holds to it."""

    def get(self, key: str) -> bytes | None:
        """The entry's data. Reading makes it young again, where the folder may be written."""
        path = self._path(key)
        try:
            data = opened(path.read_bytes(), key)
        except OSError:
            return None
        with contextlib.suppress(OSError, DiskError):
            if data is None:
                fileset.remove(path)
            else:
                os.utime(path)
        return data

    def put(self, key: str, data: bytes) -> bool:
        """Keeps an entry; False when the disk does not take it, which is no reason to fail."""
        try:
            fileset.write_file(self._path(key), sealed(data, key))
        except DiskError:
            return False
        return True

    def usage(self) -> Usage:
        """Counts what is there."""
        sizes = [stat.st_size for _, stat in self._files()]
        return Usage(len(sizes), sum(sizes))

    def prune(self, limit: int | None = None) -> Usage:
        """Drops the entries that were not used for longest, until the rest is well under the limit; what went."""
        files = sorted(self._files(), key=lambda each: each[1].st_mtime)
        total, bound = sum(stat.st_size for _, stat in files), self.limit if limit is None else limit
        dropped = Usage(0, 0)
        if total <= bound:
            return dropped
        for path, stat in files:
            if total <= bound * _KEPT:
                break
            with contextlib.suppress(DiskError):
                fileset.remove(path)
                total -= stat.st_size
                dropped = Usage(dropped.entries + 1, dropped.bytes + stat.st_size)
        return dropped

    def clear(self) -> Usage:
        """Drops everything; what went."""
        usage = self.usage()
        for path, _ in self._files():
            fileset.remove(path)
        return usage

    def _path(self, key: str) -> Path:
        assert re.fullmatch("[0-9a-f]{4,}", key), key
        return self.folder / key[:2] / key[2:]

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The entries. Another build may drop some of them meanwhile; remains of killed ones go here."""
        for group in (Path(each.path) for each in _entries(self.folder) if re.fullmatch("[0-9a-f]{2}", each.name)):
            for entry in _entries(group):
                with contextlib.suppress(OSError, DiskError):
                    stat = entry.stat()
                    if not entry.name.endswith(".part"):
                        yield Path(entry.path), stat
                    elif stat.st_mtime < _now(group) - _STALE_SECONDS:
                        fileset.remove(Path(entry.path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _now(folder: Path) -> float:
    """The time by the clock of the folder's file system, which may be another machine's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def sealed(data: bytes, key: str) -> bytes:
    """An entry's bytes: they tell by themselves whether they are whole, and what for."""
    return _MAGIC + _digest(data, key) + data


def opened(entry: bytes, key: str) -> bytes | None:
    """The data of an entry; None for anything else."""
    start = len(_MAGIC) + _DIGEST
    data = entry[start:]
    return data if entry[:start] == _MAGIC + _digest(data, key) else None


def _digest(data: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def folder(chosen: str | None, environment: Mapping[str, str]) -> Path | None:
    """The cache's folder: the option's, the variable's, else the user's; None when it is off."""
    said = environment.get(FOLDER_VARIABLE) if chosen is None else chosen
    if said == OFF:
        return None
    with errors.saying(FOLDER_VARIABLE if chosen is None and said is not None else ""):
        if said is not None and not said.strip():
            raise UsageError("the cache's folder is empty", hint=f"name a folder, or '{OFF}' for no cache")
        place = naming.place(said) if said else platformdirs.user_cache_path("aot", appauthor=False)
        fileset.check_readable(place)
    return place


def limit(environment: Mapping[str, str]) -> int:
    """The variable's limit in bytes, else the default."""
    return size(environment.get(LIMIT_VARIABLE) or DEFAULT_LIMIT, LIMIT_VARIABLE)


def size(text: str, name: str) -> int:
    """A number of bytes: ``500M``, ``5G``; ``name`` is what it was given as.

    >>> size("2K", "--size")
    2048
    """
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"{name}: '{text}' is no size", hint="for example 500M or 5G")
    return int(found[1]) * UNITS[found[2].upper()]
