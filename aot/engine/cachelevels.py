"""The two levels of the cache: a folder of this user, and a place that several machines share.

In: a key and bytes. Out: the bytes from the nearest level that has them. The shared level may be down or refuse to be
written: then it is left alone for the rest of the step, with a note. So is a folder that takes nothing.

>>> Levels().get("ab12") is None
True
"""

from __future__ import annotations

import importlib
import threading
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aot.engine import cache
from aot.engine.cache import Store
from aot.errors import ToolMissing, UsageError

REMOTE_VARIABLE = "AOT_CACHE_REMOTE"
DOWN = "the shared cache is not used"
"""Begins the note about a shared level that fails."""
PATIENCE = 60.0
"""Seconds that a place behind a URL may take for an entry; some libraries would wait for minutes, and each job anew."""
UNWRITTEN = "the cache is not used"
"""Begins the note about a folder of this user that fails."""


@dataclass
class Levels:
    """What a build asks before it compiles."""

    local: Store | None = None
    remote: Shared | Remote | None = None
    troubles: list[str] = field(default_factory=list)
    """Why a level is not used any more."""

    def get(self, key: str) -> bytes | None:
        """The entry; one that only the shared level has is kept here, too."""
        found = self.local.get(key) if self.local else None
        if found is None and self.remote is not None:
            found = self._shared(lambda remote: remote.get(key))
            if found is not None:
                self._keep(key, found)
        return found

    def put(self, key: str, data: bytes) -> None:
        """Keeps an entry on both levels."""
        self._keep(key, data)
        if self.remote is not None and self._shared(lambda remote: remote.put(key, data)) is False:
            self._give_up("it cannot be written")

    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        return tuple(self.troubles)

    def _keep(self, key: str, data: bytes) -> None:
        if self.local and not self.local.put(key, data):
            self.troubles.append(f"{UNWRITTEN}: '{self.local.folder}' cannot be written")
            self.local = None

    def _shared(self, ask: Any) -> Any:
        try:
            return _answer(ask, self.remote) if isinstance(self.remote, Remote) else ask(self.remote)
        except futures.TimeoutError:
            self._give_up(f"no answer in {PATIENCE:g} seconds")
            return None
        except Exception as error:  # whatever a library for some storage raises: it must not fail the build
            self._give_up(f"{type(error).__name__}: {error}".splitlines()[0])
            return None

    def _give_up(self, why: str) -> None:
        self.troubles.append(f"{DOWN}: {self.remote.place if self.remote else ''}: {why}")
        self.remote = None


@dataclass
class Remote:
    """A place behind a URL, through fsspec. Names are the same as in a folder."""

    place: str
    system: Any = field(init=False, default=None)
    root: str = field(init=False, default="")

    def get(self, key: str) -> bytes | None:
        """The entry; None when there is none, or when it is damaged."""
        self._connect()
        try:
            entry: bytes = self.system.cat_file(self._path(key))
        except FileNotFoundError:
            return None
        return cache.opened(entry, key)

    def put(self, key: str, data: bytes) -> bool:
        """Keeps an entry."""
        self._connect()
        path = self._path(key)
        self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
        # Object stores show a file when it is whole; elsewhere the digest in it tells.
        self.system.pipe_file(path, cache.sealed(data, key))
        return True

    def _connect(self) -> None:
        # At first use: some file systems start a thread, which would not survive the fork of a job.
        if self.system is None:
            self.system, self.root = importlib.import_module("fsspec").core.url_to_fs(self.place)

    def _path(self, key: str) -> str:
        return f"{self.root.rstrip('/')}/{key[:2]}/{key[2:]}"


def _answer(ask: Any, remote: Remote) -> Any:
    """What a place answers in time; TimeoutError when it does not. The thread is left behind."""
    found: futures.Future[Any] = futures.Future()

    def work() -> None:
        try:
            found.set_result(ask(remote))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return found.result(PATIENCE)


def of(folder: str | None, remote: str | None, limit: int = cache.UNITS["T"]) -> Levels:
    """Levels by their places; None for one that is not used."""
    return Levels(Store(Path(folder), limit) if folder else None, _remote(remote) if remote else None)


def check(remote: str | None) -> None:
    """UsageError or ToolMissing for a shared level that could never work; one that is down is no error."""
    if remote is None or "://" not in remote:
        return
    try:
        registry = importlib.import_module("fsspec.registry")
    except ImportError as error:
        raise ToolMissing(
            f"a shared cache at a URL needs fsspec: {error}", hint="python -m pip install 'aot[remote]'"
        ) from error
    protocol = remote.partition("://")[0].rpartition("::")[2]
    try:
        registry.get_filesystem_class(protocol)
    except ValueError as error:
        raise UsageError(f"'{remote}' is no place for a shared cache: {error}") from error
    except ImportError as error:
        raise ToolMissing(
            f"a shared cache at {protocol}:// needs a package that is not here: {error}",
            hint="fsspec has one for each kind of storage: install it with python -m pip install, beside 'aot[remote]'",
        ) from error


def _remote(place: str) -> Shared | Remote:
    return Remote(place) if "://" in place else Shared(Path(place))


@dataclass(frozen=True)
class Shared(Store):
    """A folder that others use, too: a folder that is not there is one that is down."""

    @property
    def place(self) -> str:
        """Its path."""
        return f"'{self.folder}'"
