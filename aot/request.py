"""What a user asks of a build: the options of the command line, and the arguments of ``aot.build``.

In: values as the caller has them. Out: BuildRequest, whose fields have the types that they say; UsageError names the
one that has not. What the values mean is settled in ``plan``.

>>> BuildRequest(("kernels",), schedules=3)   # doctest: +SKIP
aot.errors.UsageError: BuildRequest: schedules: a text or None is needed; got 3
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from aot.engine.engineoptions import LOCAL
from aot.errors import UsageError

_WORDS = {str: "a text", int: "a whole number", bool: "True or False", NoneType: "None"}
_TEXTS = tuple[str, ...]


@dataclass(frozen=True)
class BuildRequest:
    """What the user asks for; None and False where he says nothing."""

    sources: tuple[str, ...]
    """Folders and files."""
    archs: str | None = None
    name: str | None = None
    version: str | None = None
    out: str = "dist"
    work: str = "build"
    sdist: bool = False
    tvm_ffi: bool = False
    """The extension exports its functions to tvm-ffi."""
    c: bool = False
    """Also a header and a static library for C."""
    free_threaded: str | None = None
    """A free-threaded Python, which the wheel is for: ``3.13t``, or its executable."""
    jobs: int | None = None
    ptx: bool | None = None
    compress: str | None = None
    schedules: str | None = None
    """``fast``, or ``general`` for the general schedule wherever ``aot.toml`` names none for a function."""
    lineinfo: bool = False
    """Machine code says which line it comes from."""
    toolkit: str | None = None
    cuda: int | None = None
    dump: str | None = None
    cache: str | None = None
    """Folder of the cache, or ``off``."""
    cache_remote: str | None = None
    """Folder or URL of a cache that several machines share."""
    executor: str = LOCAL
    """``local``, or ``dask://HOST:PORT``."""
    tuned: bool = True
    """Take the schedules that `aot tune` has found."""
    only: tuple[str, ...] = ()
    """Tensor-level functions that are wanted, and nothing else; empty: everything."""

    def __post_init__(self) -> None:
        for name, kind in _kinds().items():
            value = _plain(getattr(self, name))
            object.__setattr__(self, name, value)
            if problem := _problem(value, kind):
                raise UsageError(f"BuildRequest: {name}: {problem}; got {value!r}", hint=_hint(value, kind))
        if not self.sources:
            raise UsageError("BuildRequest: sources: at least one folder or file is needed")
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"BuildRequest: jobs: at least 1 is needed; got {self.jobs}")


def check(request: object) -> None:
    """UsageError for what is no request, such as the path of a source."""
    if not isinstance(request, BuildRequest):
        raise UsageError(
            f"aot.build: request: a BuildRequest is needed; got {request!r}",
            hint='for example: aot.build(aot.BuildRequest(("kernels",)))',
        )


@functools.cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(BuildRequest)


def _plain(value: Any) -> Any:
    """Paths as texts, and lists as tuples."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _problem(value: Any, kind: Any) -> str:
    """What would be right; empty when the value is."""
    if kind == _TEXTS:
        right = isinstance(value, tuple) and all(type(each) is str for each in value)
        return "" if right else "a tuple of texts is needed"
    kinds = get_args(kind) or (kind,)
    return "" if type(value) in kinds else f"{' or '.join(_WORDS[each] for each in kinds)} is needed"


def _hint(value: Any, kind: Any) -> str:
    return f"write ({value!r},)" if kind == _TEXTS and isinstance(value, str) else ""
