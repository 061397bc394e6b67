"""Brings a package to where it can be imported.

In: a wheel, a folder that holds one, the folder of an installed package, or a package's name. Out: Installed.

>>> installed("dist/demo.whl", scratch).package                                  # doctest: +SKIP
'demo'
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from aot import fileset
from aot.errors import AotError, UsageError
from aot.packages import manifest, splitfront
from aot.packages.manifest import FILE
from aot.packages.openedpackage import opened_wheel


@dataclass(frozen=True)
class Installed:
    """A package that can be imported."""

    path: str
    """Folder for sys.path; empty when the environment has it."""
    package: str
    manifest: Mapping[str, Any]


def installed(what: str, scratch: Path) -> Installed:
    """Unpacks a wheel into ``scratch``, or finds what is installed already."""
    place = Path(what)
    if place.is_dir():
        wheels = sorted(place.glob("*.whl"))
        if len(wheels) > 1:
            raise UsageError(f"'{what}' holds {len(wheels)} wheels", hint=f"name one, such as {wheels[-1]}")
        return _unpacked(wheels[0], scratch) if wheels else _folder(place)
    if what.endswith(".whl"):
        return _unpacked(place, scratch)
    return _imported(what)


def _unpacked(wheel: Path, scratch: Path) -> Installed:
    """As an installer does it; a wheel that pip would refuse here is refused with the reason."""
    if not wheel.is_file():
        raise UsageError(f"'{wheel}' does not exist", hint="name a wheel, or an installed package")
    try:
        tags = parse_wheel_filename(wheel.name)[3]
    except InvalidWheelFilename as error:
        raise UsageError(f"'{wheel}' is no wheel: {error}") from error
    if not tags & set(sys_tags()):
        raise UsageError(f"'{wheel}' is for {', '.join(map(str, tags))}, which this Python is not")
    with opened_wheel(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    outside = [name for name in files if not name or {"..", "/"} & set(PurePosixPath(name).parts)]
    if outside:
        raise AotError(f"'{wheel}' cannot be read as a wheel: '{outside[0]}' would lie outside of it")
    fileset.write_tree(files, scratch)
    return _folder(scratch, str(wheel))


def _folder(folder: Path, name: str = "") -> Installed:
    found = [folder / FILE] if (folder / FILE).is_file() else sorted(folder.glob(f"*/{FILE}"))
    if not found:
        splitfront.check(folder, name or str(folder))
        if any(folder.glob("*.mlir")) or any(folder.glob("*.mlirbc")):
            raise UsageError(
                f"'{name or folder}' is a folder of sources; name the wheel",
                hint="`aot build` made it, in dist/ if it was not told otherwise",
            )
    if len(found) != 1:
        raise UsageError(f"'{name or folder}' is not one package made by aot: it has {len(found)} files '{FILE}'")
    package = found[0].parent.resolve()
    return Installed(str(package.parent), package.name, _manifest(found[0]))


def _imported(name: str) -> Installed:
    """A package by its import name, without importing it here."""
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError) as error:
        raise UsageError(f"'{name}' cannot be imported: {error}") from error
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise UsageError(f"'{name}' is neither a wheel nor an installed package", hint="name a .whl file or a package")
    if not (Path(places[0]) / FILE).is_file():
        splitfront.check(Path(places[0]), name)
        raise UsageError(f"the package '{name}' was not made by aot: it has no {FILE}")
    return Installed(str(Path(places[0]).parent), name, _manifest(Path(places[0]) / FILE))


def _manifest(path: Path) -> Mapping[str, Any]:
    return manifest.read(fileset.read_file(path), str(path))
