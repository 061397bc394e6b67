"""The C runtime in units of compilation: in one unit headers are read once, and calls between its files are inlined.

In: names of the runtime's files. Out: unit -> text of its file, which includes the unit's C files. Names that are
``static`` in one file are not those of another file of its unit.

>>> print(texts(["aot.h", "py_call.c", "rt_call.c"])["core"])   # doctest: +ELLIPSIS
/* Made by aot ... The runtime's core as one unit. */
#define _GNU_SOURCE
#include "runtime/rt_call.c"
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Iterable

import aot

UNITS = {"core": "The runtime's core", "python": "The runtime's part that knows Python"}
_PYTHON = "py_"
"""Begins the names of files for Python."""


def texts(names: Iterable[str]) -> dict[str, str]:
    """Every unit's file."""
    sources = sorted(name for name in names if name.endswith(".c"))
    return {unit: _text(unit, [each for each in sources if _unit(each) == unit]) for unit in UNITS}


def _unit(name: str) -> str:
    return "python" if name.startswith(_PYTHON) else "core"


def _text(unit: str, names: Iterable[str]) -> str:
    # The first header of the C library that a unit reads decides what all of them declare.
    first = [f"/* Made by aot {aot.__version__}. {UNITS[unit]} as one unit. */", "#define _GNU_SOURCE"]
    return "\n".join([*first, *(f'#include "runtime/{name}"' for name in names), ""])
