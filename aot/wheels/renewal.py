"""A wheel from the one before: what CMake's folder has not built is built, and the rest of the wheel stays.

In: a tree of which only contents have changed, CMake's folder and the wheel that the backend made. Out: the wheel that
it would make now. Its own start, CMake's configuration and compression of what has not changed are left
out.

>>> sorted(wheel(tree, built, members))[:1]   # doctest: +SKIP
['mine-1.0.dist-info/METADATA']
"""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aot import fileset, process
from aot.wheels import wheelfile
from aot.wheels.wheelfile import Members

RECIPE = ("pyproject.toml", "CMakeLists.txt", "README.md")
"""What decides how the tree is built, and what the wheel says about itself."""
_COMMAND = re.compile(r"^CMAKE_COMMAND:INTERNAL=(.*)$", re.MULTILINE)


def recipe(tree: Path) -> str:
    """The digest of all but the contents of what is compiled and packed."""
    digest = hashlib.sha256()
    for name in RECIPE:
        data = fileset.read_file(tree / name)
        digest.update(f"{name} {len(data)}\n".encode() + data)
    for path in _packed(tree):
        digest.update(f"{path.relative_to(tree)}\n".encode())
    return digest.hexdigest()


def wheel(tree: Path, built: Path, members: Members) -> Members | None:
    """The new wheel; None when the backend has to make it. ``members``: the one before."""
    found = _COMMAND.search(fileset.read_file(built / "CMakeCache.txt").decode("utf-8", "replace"))
    if found is None or not Path(found[1]).is_file():
        return None
    with ThreadPoolExecutor(1) as aside:
        building = aside.submit(process.run, [found[1], "--build", str(built)])
        files = {path.relative_to(tree / "src").as_posix(): fileset.read_file(path) for path in _packed(tree)}
        changed = wheelfile.changed(members, files)
        extensions = [path for path in members if path.endswith(".so")]
        # What goes wrong here goes wrong with the backend, too, which tells it, or does it anew.
        if building.result().returncode or len(extensions) != 1:
            return None
    # Installed as it is: the linker has stripped it.
    library = {extensions[0]: fileset.read_file(built / Path(extensions[0]).name)}
    return wheelfile.renewed(members, files.keys(), {**changed, **library})


def _packed(tree: Path) -> list[Path]:
    return sorted(path for path in (tree / "src").rglob("*") if path.is_file())
