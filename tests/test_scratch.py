"""Temporary folders: gone at the end, and what a killed process left goes when the next one is made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from aot.engine import scratch


def test_what_nobody_holds_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, new, other = (tmp_path / name for name in ("aot-scratch-build-x", "aot-scratch-build-y", "aot-mine"))
    for each in (left, new, other):
        (each / "inner").mkdir(parents=True)
    with scratch.folder("build") as held:
        (held / "file").write_text("")
        for each in (left, other, held):
            os.utime(each, (0, 0))
        with scratch.folder("verify") as another:
            assert sorted(tmp_path.iterdir()) == sorted([new, other, held, another])
    assert sorted(tmp_path.iterdir()) == [other, new]
