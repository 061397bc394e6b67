"""What a step remembers of what it made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aot.engine.stamp import Stamp

CHANGES = {
    "gone": Path.unlink,
    "other": lambda path: path.write_bytes(b"other"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


def test_a_step_is_known_by_its_key_and_its_files(tmp_path: Path) -> None:
    (tmp_path / "made").write_bytes(b"made")
    Stamp(tmp_path / "record", "key").write("value", [tmp_path / "made"])
    assert Stamp(tmp_path / "record", "key").read(str) == "value"
    assert Stamp(tmp_path / "record", "another").read(str) is None


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_changed_is_made_again(change: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"made")
    Stamp(tmp_path / "record", "key").write("value", [made])
    CHANGES[change](made)
    assert Stamp(tmp_path / "record", "key").read(str) is None
