"""The keys of ``aot.toml``, and what their values may be.

In: a value as TOML's parser gives it. Out: what is wrong with it; an empty text when nothing is.

>>> PACKAGE_KEYS["version"]("one")
"'one' is no version"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aot import naming
from aot.errors import AotError
from aot.settings import wishes
from aot.settings.wishes import SCHEDULES
from aot.targets import archlist
from aot.targets.arch import CURRENT

COMPRESS = ("none", "fast", "size", "auto")
CUDA = (12, 13)
HOSTS = ("x86-64", "aarch64")
Check = Callable[[Any], str]
"""Says what is wrong with a value; an empty text when nothing is."""


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "a text is needed"


def _line(value: Any) -> str:
    return "" if not _text(value) and value.isprintable() else "one line of text is needed"


def _texts(value: Any) -> str:
    good = isinstance(value, list) and value and all(isinstance(item, str) and item.strip() for item in value)
    return "" if good else 'a list of texts is needed, such as ["…", "…"]'


def _archs(value: Any) -> str:
    if _text(value) and _texts(value):
        return 'architectures are needed, such as ["sm_80", "sm_90"]'
    # What is here is not asked: it has no say in whether the word is right.
    return _by(lambda words: archlist.parse(words, lambda: CURRENT), value)


def _by(read: Callable[[str], object], value: Any) -> str:
    """What the one who reads the text says is wrong with it."""
    try:
        read(value)
    except AotError as error:
        return error.message.replace("\n", "; ")
    return ""


def _read_by(read: Callable[[str], object]) -> Check:
    return lambda value: _text(value) or _by(read, value)


def _choice(*choices: object) -> Check:
    def check(value: Any) -> str:
        if value in choices and not isinstance(value, bool):
            return ""
        near = wishes.nearest(value, [str(choice) for choice in choices]) if isinstance(value, str) else ""
        return f"one of {', '.join(repr(choice) for choice in choices)} is needed{near}"

    return check


def _hosts(value: Any) -> str:
    return _texts(value) or next((_choice(*HOSTS)(item) for item in value if item not in HOSTS), "")


PACKAGE_KEYS: Mapping[str, Check] = {
    "name": _read_by(naming.distribution),
    "version": _read_by(naming.version),
    "description": _line,
    "license": _read_by(naming.spdx),
}
BUILD_KEYS: Mapping[str, Check] = {
    "archs": _archs,
    "ptx": lambda value: "" if isinstance(value, bool) else "true or false is needed",
    "compress": _choice(*COMPRESS),
    "cuda": _choice(*CUDA),
    "toolkit": _text,
    "hosts": _hosts,
    "schedules": _choice(*SCHEDULES),
}
SOURCE_KEYS: Mapping[str, Check] = {
    "archs": _archs,
    "min-arch": _read_by(archlist.plain),
    "accumulate": _choice("f32", "native"),
    "precision": _choice("f32", "tf32"),
    "fully-masked": _choice("nan", "zero"),
    "passes": _texts,
    "schedules": _choice(*SCHEDULES),
    "function": lambda value: "",
}
"""``function`` is checked by ``wishes``, with places of its own."""
