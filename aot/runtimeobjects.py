"""The runtime's objects, compiled once: they are the same in each package.

In: the caches, and a wheel's folder. Out: a folder with an object for each unit of the runtime, for CMake
(``AOT_RUNTIME``); after a build that had none, its objects in the cache.

>>> given(Levels(), Path("build/wheel")) is None   # doctest: +SKIP
True
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from aot import codec, fileset, packid, resources
from aot.cachelevels import Levels

_MADE = Path("CMakeFiles", "aot_runtime.dir", "csrc")
"""Where CMake leaves them in its folder."""


@dataclass(frozen=True)
class Objects:
    """An entry of the cache."""

    names: tuple[str, ...]
    data: tuple[bytes, ...]


def given(levels: Levels, folder: Path) -> Path | None:
    """The cache's objects, in ``folder``; None when it has none."""
    entry = levels.get(_key())
    if entry is None:
        return None
    found = codec.decode(entry, Objects)
    place = folder / "runtime"
    fileset.write_tree(dict(zip(found.names, found.data, strict=True)), place)
    return place.resolve()


def compiled(built: Path) -> list[Path]:
    """The objects that CMake has made in ``built``."""
    return sorted((built / _MADE).glob("*.o"))


def keep(levels: Levels, built: Path) -> None:
    """Puts the objects that CMake has made in ``built`` into the cache."""
    made = compiled(built)
    objects = Objects(tuple(each.name for each in made), tuple(fileset.read_file(each) for each in made))
    levels.put(_key(), codec.encode(objects))


def _key() -> str:
    """The digest of what they are made from, and with."""
    return hashlib.sha256(f"runtime {packid.identity()} {resources.digest(resources.templates())}".encode()).hexdigest()
