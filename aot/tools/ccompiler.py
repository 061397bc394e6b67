"""Finds the C compiler that links generated packages, and the headers of Python.

In: the environment. Out: paths. CMake's own order is kept: ``CC``, then the usual names on PATH.

>>> find().name   # doctest: +SKIP
'cc'
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from aot import process
from aot.errors import ToolMissing

NAMES = ("cc", "gcc", "clang")
FLAGS = (
    *("-O2", "-DNDEBUG", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    *("-fno-math-errno", "-fno-plt"),
)
ADVICE = "install one, such as gcc or clang, or set CC to its path"


def find(environment: Mapping[str, str] | None = None) -> Path:
    """The compiler; ToolMissing when there is none."""
    env = os.environ if environment is None else environment
    chosen = _words("CC", env)
    if env.get("CC") and not chosen:
        raise ToolMissing("CC has nothing but blanks", hint=ADVICE)
    names = chosen[:1] or list(NAMES)
    found = next(filter(None, (shutil.which(name, path=env.get("PATH", "")) for name in names)), None)
    if found is None:
        looked = f"CC is '{env['CC']}'" if chosen else f"looked for {', '.join(NAMES)} on PATH"
        raise ToolMissing(f"no C compiler was found: {looked}", hint=ADVICE)
    return Path(found)


def programs(environment: Mapping[str, str] | None = None) -> list[str]:
    """The files that ``CC`` names: the compiler, what starts it (``ccache gcc``), and files among its options."""
    env = os.environ if environment is None else environment
    words = [word.rpartition("=")[2] for word in _words("CC", env)[1:]]
    return [str(find(env)), *filter(None, (shutil.which(word, os.F_OK, env.get("PATH", "")) for word in words))]


def command(environment: Mapping[str, str] | None = None) -> list[str]:
    """How the runtime is compiled: as CMake does it by templates/package/CMakeLists.txt.in, ``CC`` and ``CFLAGS``.

    ToolMissing when there is no compiler, or what these variables say cannot be taken apart.
    """
    env = os.environ if environment is None else environment
    return [str(find(env)), *_words("CC", env)[1:], *_words("CFLAGS", env), *FLAGS]


def python_headers() -> str:
    """The folder of this Python's headers; ToolMissing when they are not installed."""
    folder = sysconfig.get_paths()["include"]
    if not Path(folder, "Python.h").is_file():
        raise ToolMissing(
            f"{sys.executable} has no headers: there is no '{folder}/Python.h'",
            hint="install them: python3-dev on Debian and Ubuntu, python3-devel on Fedora",
        )
    return folder


def version(compiler: Path) -> str:
    """Its first line about itself."""
    return process.check([compiler, "--version"], error=ToolMissing, timeout=60).stdout.decode().partition("\n")[0]


def _words(name: str, environment: Mapping[str, str]) -> list[str]:
    """Those of a variable, as a shell reads them."""
    said = environment.get(name, "")
    try:
        return shlex.split(said)
    except ValueError as error:
        raise ToolMissing(f"{name} is '{said}', which no shell can read: {error}", hint=f"correct {name}") from error
