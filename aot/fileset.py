"""The door to the disk: every file that aot makes is written here.

In: paths and bytes. Out: files that are whole or absent, and what was written.
A file whose bytes did not change keeps its time stamp, so that ninja and CMake
leave what depends on it alone.

>>> write_tree({"a/b.txt": b"text"}, Path("build/tree"))   # doctest: +SKIP
Written(changed=('a/b.txt',), removed=(), bytes=4)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from aot.errors import DiskError

_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
DISK_TROUBLE = _WRITING | {errno.EACCES, errno.EPERM, errno.EIO, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of the system that are the machine's or the user's, not a bug's, wherever they come up."""

LOCK = ".lock"
"""File in each folder of intermediate files."""

FileSet = Mapping[str, bytes]
"""Files as a value: path with ``/``, relative to the tree's root -> content."""

REASONS = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.EEXIST: "a file stands where a folder is needed",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "its links lead in a circle",
    errno.ENOENT: "it does not exist",
}
HINTS = {
    errno.ENOSPC: "free some space, or choose another folder (of a build: --out, --work)",
    errno.EROFS: "choose another folder (of a build: --out, --work)",
    errno.EACCES: "choose another folder (of a build: --out, --work)",
    errno.ENOTDIR: "move that file away, or choose another folder (of a build: --out, --work)",
    errno.EEXIST: "move that file away, or choose another folder (of a build: --out, --work)",
}


@dataclass(frozen=True)
class Written:
    """What ``write_tree`` did."""

    changed: tuple[str, ...]
    """Paths that were new or had other bytes."""
    removed: tuple[str, ...]
    """Paths that the tree no longer holds."""
    bytes: int
    """Of all files of the tree together."""


def read_file(path: Path) -> bytes:
    """The content of a file."""
    with _disk("read", path):
        return path.read_bytes()


def write_file(path: Path, data: bytes) -> bool:
    """Writes one file whole, making its folder; False when it already had these bytes."""
    with _disk("write", path):
        if _holds(path, data):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
        return True


def write_tree(files: FileSet, folder: Path) -> Written:
    """Makes ``folder`` hold exactly ``files``."""
    changed = []
    for name in sorted(files):
        parts = PurePosixPath(name).parts
        assert parts, "a path without a name"
        assert not {"..", "/"} & set(parts), f"outside the tree: {name}"
        if write_file(folder.joinpath(*parts), files[name]):
            changed.append(name)
    removed = _prune(folder, frozenset(files))
    return Written(tuple(changed), removed, sum(len(data) for data in files.values()))


def publish(source: Path, folder: Path) -> Path:
    """Copies a finished file into ``folder`` under its own name; it appears there whole or not at all."""
    target = folder / source.name
    write_file(target, read_file(source))
    return target


def remove(path: Path) -> None:
    """Removes a file or a folder if it is there."""
    with _disk("remove", path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def make_folder(path: Path) -> Path:
    """Makes a folder and its parents."""
    with _disk("create", path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def check_writable(folder: Path) -> None:
    """Raises early when ``folder`` could not be made or written, without making it."""
    existing = folder
    with _disk("write", folder):
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "", str(existing))
        # Permissions, mounts and quotas all have their say: only trying tells.
        with tempfile.TemporaryFile(dir=existing):
            return


def check_readable(folder: Path) -> None:
    """Raises when what is there is no folder, or may not be read; nothing needs to be there."""
    with _disk("read", folder), contextlib.suppress(FileNotFoundError):
        os.scandir(folder).close()


def _holds(path: Path, data: bytes) -> bool:
    """Whether the file is there, with these bytes."""
    try:
        return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:  # replacing it tells what is wrong, if that cannot be done
        return False


def _replace(path: Path, data: bytes) -> None:
    """Temporary name in the same folder, then rename: a reader sees the old bytes or the new ones."""
    # Folders are shared by machines and containers, where processes have the same numbers.
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _prune(folder: Path, keep: frozenset[str]) -> tuple[str, ...]:
    """Removes files that are not in the tree, then folders that became empty."""
    removed = []
    with _disk("clean", folder):
        for place, folders, files in os.walk(folder, topdown=False):
            inside = Path(place).relative_to(folder)
            for name in files + [each for each in folders if os.path.islink(os.path.join(place, each))]:
                path = (inside / name).as_posix()
                if path not in keep:
                    os.unlink(os.path.join(place, name))
                    removed.append(path)
            if inside.parts and not os.listdir(place):
                os.rmdir(place)
    return tuple(sorted(removed))


def check_ours(folder: Path, parts: Sequence[str]) -> None:
    """DiskError when one of ``parts`` is in ``folder`` but was made by somebody else: it would be emptied."""
    foreign = [part for part in parts if (folder / part).exists()]
    if foreign and not (folder / LOCK).exists():
        raise DiskError(
            f"cannot use '{folder}': it holds '{foreign[0]}', which no build of ours has made",
            hint="choose another folder with --work; all that is in it may be overwritten",
        )


@contextlib.contextmanager
def listener(path: Path) -> Iterator[socket.socket]:
    """A socket that other processes of this machine find under ``path``."""
    remove(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            with _disk("make the socket", path):
                # The folder's path may be longer than a socket's address can be.
                made.bind(f"/proc/self/fd/{folder}/{path.name}")
            made.listen(socket.SOMAXCONN)
            yield made
    finally:
        os.close(folder)
        remove(path)


@contextlib.contextmanager
def lock(folder: Path, busy: Callable[[], None]) -> Iterator[int]:
    """Holds ``folder`` for this process; ``busy`` is told when another one has it and must be waited for.

    The file that is given is the lock: the folder is held as long as any process has it open.
    """
    make_folder(folder)
    with contextlib.ExitStack() as stack:
        # What fails while it is held is no matter of the lock.
        with _disk("lock", folder):
            file = stack.enter_context((folder / LOCK).open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def trouble(error: OSError) -> DiskError | None:
    """The error of a full, read-only or forbidden disk, or of a path, met anywhere; None for any other OSError."""
    if error.errno not in DISK_TROUBLE:
        return None
    where = f"'{error.filename}'" if error.filename else "a file"
    verb = "write" if error.errno in _WRITING else "use"
    return DiskError(
        f"cannot {verb} {where}: {REASONS.get(error.errno, error.strerror)}",
        hint=HINTS.get(error.errno, "") if verb == "write" else "",
    )


@contextlib.contextmanager
def _disk(verb: str, path: Path) -> Iterator[None]:
    """Turns an OSError into a DiskError that names the path, the reason and the way out."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        culprit = Path(str(error.filename)) if error.filename else path
        reason = REASONS.get(number, error.strerror or str(error))
        where = f" ('{culprit}')" if number in (errno.ENOTDIR, errno.EEXIST) and culprit != path else ""
        hint = "" if verb == "read" else HINTS.get(number, "")
        raise DiskError(f"cannot {verb} '{path}': {reason}{where}", hint=hint) from error
