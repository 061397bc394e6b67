"""How a build is done, which does not change what comes out: where jobs run, which caches are asked, the date of files.

In: options and environment variables as they are. Out: Engine, with everything checked.

>>> of("local", "off", None, {}).cache is None
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aot import errors
from aot.engine import cache, cachelevels
from aot.engine.cachelevels import Levels
from aot.errors import UsageError

LOCAL, DASK = "local", "dask://"
JOBS_VARIABLE, EPOCH_VARIABLE = "MAX_JOBS", "SOURCE_DATE_EPOCH"
FIRST_EPOCH, LAST_EPOCH = 315532800, 4354819198
"""1980 and 2107: a zip file can hold no dates outside."""


@dataclass(frozen=True)
class Engine:
    """What a build is done with."""

    executor: str
    """``local`` or ``dask://HOST:PORT``."""
    cache: Path | None
    """Folder of the cache; None: none is used."""
    limit: int
    """Of the cache, in bytes."""
    remote: str | None
    """Folder or URL of a cache that several machines share."""
    epoch: int
    """Date of all files in the wheel, in seconds: the clock must not show."""

    def levels(self) -> Levels:
        """The caches."""
        return cachelevels.of(str(self.cache) if self.cache else None, self.remote, self.limit)


def of(executor: str, folder: str | None, remote: str | None, environment: Mapping[str, str]) -> Engine:
    """Settles everything, or raises what is wrong."""
    shared = _remote(remote, environment)
    with errors.saying(cachelevels.REMOTE_VARIABLE if remote is None else ""):
        cachelevels.check(shared)
    return Engine(
        executor=_executor(executor),
        cache=cache.folder(folder, environment),
        limit=cache.limit(environment),
        remote=shared,
        epoch=_epoch(environment),
    )


def _executor(said: str) -> str:
    host, _, port = said.removeprefix(DASK).rpartition(":")
    if said == LOCAL or (said.startswith(DASK) and host and port.isdecimal()):
        return said
    raise UsageError(f"unknown executor '{said}'", hint=f"it is '{LOCAL}', or a cluster: {DASK}HOST:PORT")


def _remote(said: str | None, environment: Mapping[str, str]) -> str | None:
    place = environment.get(cachelevels.REMOTE_VARIABLE) if said is None else said
    if place and "://" not in place:
        return str(Path(place).absolute())
    return place or None


def _epoch(environment: Mapping[str, str]) -> int:
    said = environment.get(EPOCH_VARIABLE, "")
    if said and not said.isdecimal():
        raise UsageError(f"{EPOCH_VARIABLE}='{said}' is no number of seconds")
    return min(max(int(said or 0), FIRST_EPOCH), LAST_EPOCH)


def processors(environment: Mapping[str, str]) -> int:
    """How many sources are compiled at a time where nobody says it."""
    said = environment.get(JOBS_VARIABLE, "")
    if said and (not said.isdecimal() or int(said) < 1):
        raise UsageError(f"{JOBS_VARIABLE}='{said}' is no number of jobs", hint=f"for example: {JOBS_VARIABLE}=4")
    return int(said) if said else len(os.sched_getaffinity(0))
