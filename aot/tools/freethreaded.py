"""A free-threaded Python, for which a wheel of its own is built.

In: a version such as ``3.13t``, a name such as ``python3.13t``, or a path. Out: FreeThreaded; ToolMissing when there is
none, when it is an ordinary Python, or when it has no headers.

>>> find("3.13t").tag   # doctest: +SKIP
'cp313-cp313t'
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from aot import process
from aot.errors import ToolMissing

_VERSION = re.compile(r"3\.\d+t")
_FACTS = """
import json, sys, sysconfig
value = sysconfig.get_config_var
places = [sysconfig.get_paths()["include"], value("SOABI")]
print(json.dumps([list(sys.version_info[:2]), value("Py_GIL_DISABLED") == 1, *places]))
"""
_ADVICE = (
    "install a free-threaded build of CPython 3.13 or later with its headers (`uv python install 3.13t`, conda-forge's "
    "python-freethreading, or CPython's sources with `./configure --disable-gil`), and name its executable"
)


@dataclass(frozen=True)
class FreeThreaded:
    """An interpreter without a global lock."""

    executable: str
    tag: str
    """Of its wheels, without the platform: ``cp313-cp313t``."""
    include: str
    """Folder of its headers."""
    abi: str
    """In the file names of its extensions: ``cpython-313t-x86_64-linux-gnu``."""


def find(said: str) -> FreeThreaded:
    """The interpreter that is asked for."""
    name = f"python{said}" if _VERSION.fullmatch(said) else said
    executable = shutil.which(name)
    if executable is None and Path(name).exists():
        raise ToolMissing(f"'{name}' is no executable", hint=_ADVICE)
    if executable is None:
        raise ToolMissing(f"no free-threaded Python '{name}' was found", hint=_ADVICE)
    words = process.check([executable, "-I", "-c", _FACTS], error=ToolMissing, timeout=60).stdout
    (major, minor), free, include, abi = json.loads(words)
    if not free:
        raise ToolMissing(
            f"'{executable}' is an ordinary Python {major}.{minor}, which takes the wheel that is built without "
            "--free-threaded",
            hint=_ADVICE,
        )
    if not Path(include, "Python.h").exists():
        raise ToolMissing(f"'{executable}' has no headers: there is no '{include}/Python.h'", hint=_ADVICE)
    return FreeThreaded(executable, f"cp{major}{minor}-cp{major}{minor}t", include, abi)
