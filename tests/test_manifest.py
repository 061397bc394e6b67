"""What readers of packages count on: damaged manifests are told with the field, and no wheel leaves its folder."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aot.errors import AotError
from aot.packages import manifest, metadata, openedpackage
from aot.verifying import installed

GOLDEN = sorted(Path(__file__).parent.glob("golden/*/src/*/aot.json"))
WHEEL = "demo-1.0-py3-none-any.whl"


def document(path: Path = GOLDEN[-1]) -> dict[str, Any]:
    """A manifest as it is packaged; the last one has functions, kernels and images."""
    return {**json.loads(path.read_bytes()), "left_out": []}


def test_the_schema_is_one_number() -> None:
    assert manifest.SCHEMA == metadata.SCHEMA


@pytest.mark.parametrize("path", GOLDEN, ids=[path.parents[2].name for path in GOLDEN])
def test_what_packages_hold_is_read(path: Path) -> None:
    assert manifest.problem(document(path)) == ""


def fields(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of a document."""
    yield place
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from fields(each, (*place, key))


def test_no_field_can_be_anything() -> None:
    """Except those that nobody reads."""
    whole = document()
    missed = []
    for place in list(fields(whole))[1:]:
        changed = copy.deepcopy(whole)
        inner: Any = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = 1.5
        if not manifest.problem(changed):
            missed.append(".".join(key for key in place if isinstance(key, str)))
    assert set(missed) <= {"modules.schedules", "modules.kernels.params.bytes"}


WRONG = [
    ("no JSON", b"{", "is damaged: Expecting"),
    ("no text", b"\xff\xfe", "is damaged: "),
    ("deep", b"[" * 100_000, "is damaged: "),
    ("a list", b"[1]", "the manifest has schema None"),
    ("newer", b'{"schema": 2}', "the manifest has schema 2"),
    ("bare", b'{"schema": 1}', "is damaged: package is missing"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_file_that_is_none(data: bytes, message: str) -> None:
    with pytest.raises(AotError, match=message):
        manifest.read(data, "x.whl")


def test_a_damaged_field_is_named() -> None:
    changed = document()
    number = next(i for i, module in enumerate(changed["modules"]) if module["images"])
    changed["modules"][number]["images"][0]["bytes"] = "many" * 100
    words = manifest.problem(changed)
    assert words.startswith(f'modules[{number}].images[0].bytes is "manymany')
    assert words.endswith("…, not a whole number")
    del changed["modules"][number]["images"]
    assert manifest.problem(changed) == f"modules[{number}].images is missing"


def test_a_wheel_that_was_changed_is_no_bug_of_ours(tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo/aot.json", json.dumps(document()))
        archive.writestr("demo/_demo.so", b"")
    data = bytearray(wheel.read_bytes())
    data[100:110] = bytes(10)
    wheel.write_bytes(data)
    with pytest.raises(AotError, match="cannot be read as a wheel"):
        openedpackage.open_package(str(wheel))
    with pytest.raises(AotError, match="cannot be read as a wheel"):
        installed.installed(str(wheel), tmp_path / "scratch")


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "demo/../../evil.py"])
def test_no_file_of_a_wheel_goes_elsewhere(name: str, tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(name, b"")
    with pytest.raises(AotError, match="would lie outside of it"):
        installed.installed(str(wheel), tmp_path / "scratch")
    assert list(tmp_path.iterdir()) == [wheel]
