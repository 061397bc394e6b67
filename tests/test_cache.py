"""The cache: what is kept, what is dropped, and that nothing damaged ever comes back."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest

from aot import cli
from aot.engine import cache, cachelevels
from aot.engine.cache import Store, Usage
from aot.engine.cachelevels import Levels
from aot.errors import ToolMissing, UsageError

KEY, OTHER = "ab" * 32, "cd" * 32


def entry(store: Store, key: str = KEY) -> Path:
    """The file of an entry."""
    return store.folder / key[:2] / key[2:]


def test_entries_come_back_by_their_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get(KEY) is None
    assert store.put(KEY, b"data")
    assert (store.get(KEY), store.get(OTHER)) == (b"data", None)
    assert store.usage().entries == 1


DAMAGES = {
    "a changed byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a cut": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "more": lambda data: data + b"\0",
    "another version": lambda data: data.replace(b"entry 1", b"entry 0"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_one_that_is_not_there(damage, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = Store(tmp_path)
    store.put(KEY, b"data" * 100)
    entry(store).write_bytes(damage(entry(store).read_bytes()))
    assert store.get(KEY) is None
    assert not entry(store).exists()
    assert store.put(KEY, b"new")
    assert store.get(KEY) == b"new"


def test_a_folder_that_may_only_be_read_gives_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EPERM, "another user's", str(path))

    store = Store(tmp_path)
    store.put(KEY, b"data")
    monkeypatch.setattr(os, "utime", refused)
    assert store.get(KEY) == b"data"


def test_an_entry_under_a_wrong_name_is_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, b"data")
    entry(store, OTHER).parent.mkdir()
    entry(store).rename(entry(store, OTHER))
    assert store.get(OTHER) is None


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=4000)
    keys = [f"{number:02x}" * 32 for number in range(6)]
    for age, key in enumerate(keys):
        store.put(key, bytes(1000))
        os.utime(entry(store, key), (age, age))
    assert store.get(keys[0]) is not None, "reading makes it young"
    dropped = store.prune()
    assert dropped.entries == 3
    assert [store.get(key) is not None for key in keys] == [True, False, False, False, True, True]
    assert store.prune() == Usage(0, 0)


def test_remains_of_killed_builds_go_after_a_while(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, b"data")
    young, old = (entry(store).with_name(f".{name}.part") for name in ("young", "old"))
    for file in (young, old):
        file.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    assert store.usage().entries == 1
    assert (young.exists(), old.exists()) == (True, False)


def test_a_disk_that_takes_nothing_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    store = Store(tmp_path / "taken" / "cache")
    assert not store.put(KEY, b"data")
    assert store.get(KEY) is None
    assert store.usage() == Usage(0, 0)


def test_a_folder_that_cannot_be_looked_into_holds_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / ("a" * 300), limit=0)
    assert (store.usage(), store.prune(), store.clear()) == (Usage(0, 0),) * 3


def test_two_builds_write_one_entry(tmp_path: Path) -> None:
    """Whoever reads meanwhile sees the whole entry."""
    store = Store(tmp_path)
    store.put(KEY, bytes(100_000))
    child = os.fork()
    if child == 0:
        for _ in range(100):
            store.put(KEY, bytes(100_000))
            entry(store).unlink(missing_ok=True)
        os._exit(0)
    found = set()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        found.add(store.get(KEY))
    assert found <= {None, bytes(100_000)}


@pytest.mark.parametrize("place", ["{}/shared", "file://{}/shared", "memory://{}/shared"])
def test_the_shared_level_fills_the_local_one(place: str, tmp_path: Path) -> None:
    where = place.format(tmp_path)
    cachelevels.check(where)
    cachelevels.of(None, where).put(KEY, b"data")
    levels = cachelevels.of(str(tmp_path / "local"), where)
    assert (levels.get(OTHER), levels.get(KEY), levels.notes()) == (None, b"data", ())
    assert Store(tmp_path / "local").get(KEY) == b"data"


def test_a_damaged_shared_entry_is_none(tmp_path: Path) -> None:
    levels = cachelevels.of(None, f"file://{tmp_path}")
    levels.put(KEY, b"data")
    entry(Store(tmp_path)).write_bytes(b"aot cache entry 1\n")
    assert levels.get(KEY) is None


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/cache", "{}/taken/cache"])
def test_a_shared_level_that_is_down_is_left_alone_with_a_note(place: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "taken").write_text("")
    levels = cachelevels.of(str(tmp_path / "local"), place.format(tmp_path))
    assert levels.get(KEY) is None
    levels.put(KEY, b"data")
    assert levels.get(KEY) == b"data"
    (note,) = levels.notes()
    assert note.startswith(f"{cachelevels.DOWN}: ")
    assert levels.remote is None


def test_a_shared_level_that_does_not_answer_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(cachelevels, "PATIENCE", 0.1)
    monkeypatch.setattr(cachelevels.Remote, "get", lambda remote, key: over.wait(60))
    levels = cachelevels.of(str(tmp_path), "memory://silent")
    assert levels.get(KEY) is None
    over.set()
    assert levels.notes() == (f"{cachelevels.DOWN}: memory://silent: no answer in 0.1 seconds",)
    assert levels.remote is None


def test_a_folder_that_takes_nothing_is_left_alone_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    levels = cachelevels.of(str(tmp_path / "taken" / "cache"), str(tmp_path))
    levels.put(KEY, b"data")
    levels.put(OTHER, b"data")
    assert levels.notes() == (f"{cachelevels.UNWRITTEN}: '{tmp_path}/taken/cache' cannot be written",)
    assert levels.get(KEY) == b"data"
    levels = cachelevels.of(str(tmp_path / "taken"), None)
    levels.put(KEY, b"data")
    assert levels.notes() == (f"{cachelevels.UNWRITTEN}: '{tmp_path}/taken' cannot be written",)


def test_without_a_cache_nothing_is_kept() -> None:
    levels = Levels()
    levels.put(KEY, b"data")
    assert levels.get(KEY) is None


def test_where_the_cache_is() -> None:
    assert cache.folder(None, {}) is not None
    assert cache.folder(None, {"AOT_CACHE": "/x"}) == Path("/x")
    assert cache.folder("/y", {"AOT_CACHE": "/x"}) == Path("/y")
    assert cache.folder("off", {"AOT_CACHE": "/x"}) is None
    assert cache.folder(None, {"AOT_CACHE": "off"}) is None
    assert cache.limit({"AOT_CACHE_LIMIT": "2g"}) == 2 << 30
    with pytest.raises(UsageError, match="AOT_CACHE_LIMIT: 'much' is no size"):
        cache.limit({"AOT_CACHE_LIMIT": "much"})
    with pytest.raises(UsageError, match="'what://x' is no place for a shared cache"):
        cachelevels.check("what://x")


def test_a_kind_of_storage_whose_package_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ToolMissing, match=r"a shared cache at s3:// needs a package .*s3fs") as caught:
        cachelevels.check("s3://bucket/folder")
    assert "python -m pip install" in caught.value.hint


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_CACHE_LIMIT", "5G")
    store = Store(tmp_path)
    for key in (KEY, OTHER):
        store.put(key, bytes(1000))
    place = ["--cache", str(tmp_path)]
    assert cli.run(["cache", "info", *place, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["entries"], found["folder"], found["limit"]) == (2, str(tmp_path), 5 << 30)
    assert cli.run(["cache", "info", *place]) == 0
    assert re.search(r"^limit +5 GiB$", capsys.readouterr().out, re.MULTILINE)
    assert cli.run(["cache", "prune", *place, "--size", "1500"]) == 0
    assert "dropped 1 entry, " in capsys.readouterr().err
    assert cli.run(["cache", "clear", *place]) == 0
    assert store.usage() == Usage(0, 0)
    assert cli.run(["cache", "info", "--cache", "off"]) == 2


@pytest.mark.parametrize("command", ["info", "clear", "prune"])
@pytest.mark.parametrize("below", ["", "cache"])
def test_a_file_is_no_cache(command: str, below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    place = tmp_path / "file" / below
    assert cli.run(["cache", command, "--cache", str(place)]) == 1
    assert f"cannot read '{place}': a file stands where a folder is needed" in capsys.readouterr().err


def test_a_cache_that_is_not_there_yet_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["cache", "info", "--cache", str(tmp_path / "none"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 0
