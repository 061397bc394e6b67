"""Whatever a caller of the Python API gives, the error is ours, and names the argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aot
from aot.errors import UsageError
from aot.request import BuildRequest

WRONG = [
    ({"sources": "kernels"}, r"sources: a tuple of texts is needed; got 'kernels'"),
    ({"sources": None}, r"sources: a tuple of texts is needed; got None"),
    ({"sources": ()}, r"sources: at least one folder or file is needed"),
    ({"sources": (3,)}, r"sources: a tuple of texts is needed; got \(3,\)"),
    ({"archs": ["sm_80"]}, r"archs: a text or None is needed; got \('sm_80',\)"),
    ({"name": 3}, r"name: a text or None is needed; got 3"),
    ({"out": None}, r"out: a text is needed; got None"),
    ({"work": b"x"}, r"work: a text is needed; got b'x'"),
    ({"sdist": 1}, r"sdist: True or False is needed; got 1"),
    ({"ptx": "no"}, r"ptx: True or False or None is needed; got 'no'"),
    ({"jobs": True}, r"jobs: a whole number or None is needed; got True"),
    ({"jobs": 0}, r"jobs: at least 1 is needed; got 0"),
    ({"cuda": "12"}, r"cuda: a whole number or None is needed; got '12'"),
    ({"schedules": 3}, r"schedules: a text or None is needed; got 3"),
    ({"only": "f"}, r"only: a tuple of texts is needed; got 'f'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_wrong_values_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^BuildRequest: {message}$"):
        BuildRequest(**{"sources": ("kernels",), **options})


def test_paths_and_lists_will_do() -> None:
    request = BuildRequest([Path("kernels")], out=Path("dist"), cache=Path("here"))  # type: ignore[arg-type]
    assert (request.sources, request.out, request.cache) == (("kernels",), "dist", "here")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aot.build("kernels"), r"aot\.build: request: a BuildRequest is needed; got 'kernels'"),  # type: ignore[arg-type]
        (lambda: aot.build(BuildRequest(("kernels",)), 3), r"reporter: an object with the methods stage, .*; got 3"),  # type: ignore[arg-type]
        (lambda: aot.inspect(3), r"aot\.inspect: path: a path is needed; got 3"),  # type: ignore[arg-type]
    ],
)
def test_other_arguments(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_a_package_is_named_by_a_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.whl' does not exist"):
        aot.inspect(tmp_path / "nothing.whl")
