"""Builds the wheel of a generated tree, and checks what came out.

In: the tree on disk. Out: a wheel with the platform tag that auditwheel computes, byte-identical for the same tree.
The build backend is scikit-build-core with ninja, without isolation: the extra ``build`` of aot installs both.

>>> build(Path("build/tree"), Path("build/wheel")).wheel.name                 # doctest: +SKIP
'kernels-1.0-cp310-abi3-manylinux_2_34_x86_64.whl'
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aot import fileset, process
from aot.errors import PackageError, ToolMissing
from aot.wheelfile import extension_of, problems, retagged

_MODULES = ("build", "scikit_build_core", "auditwheel", "elftools")
"""What a build needs in this Python; cmake and ninja are asked for by scikit-build-core."""
_PROGRESS = re.compile(r"-- |\[\d+/\d+\] |\*+ |TIP ")
_SHOWN = 60
"""Lines of a failed build that are shown."""
_SETTINGS = {"NO_COLOR": "1", "LC_ALL": "C", "PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class Options:
    """What is asked for beside the tree."""

    sdist: bool = False
    pure: bool = False
    """The tree has no extension."""
    epoch: int = 315532800
    """Date of all files, in seconds; the default is the first that a zip file can hold."""


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel on disk."""

    wheel: Path
    sha256: str
    bytes: int
    platform: str
    """As auditwheel computed it: ``manylinux_2_34_x86_64``."""
    sdist: Path | None = None


def build(tree: Path, folder: Path, options: Options = Options()) -> BuiltWheel:
    """Builds the tree's wheel (and source distribution) into ``folder``; PackageError when either fails a check."""
    _check_tools()
    made = fileset.make_folder(folder / "made")
    for old in made.iterdir():
        fileset.remove(old)
    kinds = ["--wheel", "--sdist"] if options.sdist else ["--wheel"]
    # The build folder is kept: the runtime's C files are the same bytes in every package, and compiled once.
    words = ["--no-isolation", "--outdir", str(made.resolve()), f"-Cbuild-dir={(folder / 'cmake').resolve()}"]
    _python("build", *kinds, *words, str(tree.resolve()), cwd=made, epoch=options.epoch)
    raw = _one(made, "*.whl")
    platform = "any" if options.pure else _checked(tree, raw)
    name, data = retagged(raw.name, fileset.read_file(raw), platform, options.epoch)
    fileset.write_file(folder / name, data)
    archive = _one(made, "*.tar.gz") if options.sdist else None
    return BuiltWheel(folder / name, hashlib.sha256(data).hexdigest(), len(data), platform, archive)


def _check_tools() -> None:
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolMissing(
            f"building a wheel needs {', '.join(missing)} in {sys.executable}",
            hint="install aot with its tools: pip install 'aot[build]'",
        )


def _python(module: str, *arguments: str, cwd: Path, epoch: int) -> process.Completed:
    """Runs a module of this Python away from the user's folder; its words become the error when it fails.

    Compilers and CMake speak through the build frontend on both of its streams, so both are shown.
    """
    done = process.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env={**os.environ, **_SETTINGS, "SOURCE_DATE_EPOCH": str(epoch)},
    )
    if done.returncode == 0:
        return done
    said = [
        line
        for line in (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
        if not _PROGRESS.match(line)
    ]
    raise PackageError(
        f"`python -m {module}` failed with exit code {done.returncode}\n" + "\n".join(said[-_SHOWN:]).strip(),
        hint="the generated package stays in the work folder, as `tree`: `pip install -v` of it shows everything",
    )


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"the build left {len(found)} files {pattern} in '{folder}', expected one")
    return found[0]


def _platform(wheel: Path) -> str:
    """The tag that says which Linux the extension's symbols need."""
    done = _python("auditwheel", "show", "--json", str(wheel.resolve()), cwd=wheel.parent, epoch=Options().epoch)
    report = json.loads(done.stdout)
    outside = sorted(report["external_libs"])
    if outside:
        raise PackageError(f"the extension links {', '.join(outside)}, which the wheel does not carry")
    return str(report["overall_tag"])


def _checked(tree: Path, raw: Path) -> str:
    """The platform of a wheel, of which auditwheel and we look at the extension at the same time."""
    with ThreadPoolExecutor() as threads:
        platform = threads.submit(_platform, raw)
        _check(tree, raw.name, fileset.read_file(raw))
        return platform.result()


def _check(tree: Path, name: str, data: bytes) -> None:
    module, library = extension_of(data)
    blobs = {path.name: fileset.read_file(path) for path in sorted((tree / "blobs").glob("*.fatbin"))}
    found = [*problems(module, library, blobs), *([] if "-cp310-abi3-" in name else [f"the wheel is tagged {name}"])]
    if found:
        raise PackageError(f"{name} is not what it should be\n  " + "\n  ".join(found))
