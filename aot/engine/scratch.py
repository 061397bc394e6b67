"""Folders for temporary files that somebody removes in any case: their owner, or, if that was killed, the next one.

In: what a folder is for. Out: the folder, for as long as the block takes. It is locked meanwhile; one of this user that
nobody holds was left behind.

>>> with folder("build") as place:
...     place.name.startswith("aot-scratch-build-")
True
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "aot-scratch-"
_NEW_SECONDS = 60.0
"""Younger ones are left alone: their owner may be about to lock them."""


@contextlib.contextmanager
def folder(purpose: str) -> Iterator[Path]:
    """A new folder; forks of this process that outlive it keep it from being taken for a forgotten one."""
    with contextlib.suppress(OSError):
        _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-") as made:
        held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: nobody will sweep it, either
                fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(made)
        finally:
            os.close(held)


def _sweep(place: Path) -> None:
    """Removes what killed processes left."""
    for found in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = found.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
                continue
            if time.time() - facts.st_mtime > _NEW_SECONDS and _is_free(found):
                shutil.rmtree(found, ignore_errors=True)


def _is_free(found: Path) -> bool:
    """Whether nobody holds the folder."""
    handle = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
