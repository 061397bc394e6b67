"""The door to the disk: whole files, untouched ones, and errors that say what to do."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from aot import fileset
from aot.errors import DiskError


def test_a_tree_is_made_and_kept(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    first = fileset.write_tree({"a/b.txt": b"1", "c.txt": b"22"}, tree)
    assert first == fileset.Written(("a/b.txt", "c.txt"), (), 3)
    before = (tree / "c.txt").stat().st_mtime_ns
    second = fileset.write_tree({"c.txt": b"22", "d.txt": b"3"}, tree)
    assert second == fileset.Written(("d.txt",), ("a/b.txt",), 3)
    assert (tree / "c.txt").stat().st_mtime_ns == before, "rewritten with the same bytes"
    assert sorted(path.name for path in tree.iterdir()) == ["c.txt", "d.txt"], "an empty folder stayed"


@pytest.mark.parametrize("path", ["../out.txt", "/etc/out.txt"])
def test_a_tree_stays_inside_its_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(AssertionError, match="outside the tree"):
        fileset.write_tree({path: b""}, tmp_path)


def test_publishing_replaces_a_file_at_once(tmp_path: Path) -> None:
    source = tmp_path / "new" / "x.whl"
    fileset.write_file(source, b"new")
    fileset.write_file(tmp_path / "dist" / "x.whl", b"old")
    assert fileset.publish(source, tmp_path / "dist").read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "dist").iterdir()] == ["x.whl"]


def test_errors_name_the_path_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(DiskError) as caught:
        fileset.write_file(tmp_path / "taken" / "deep" / "x", b"")
    assert "taken/deep/x': a file stands where a folder is needed" in caught.value.message
    assert "--out" in caught.value.hint
    with pytest.raises(DiskError, match=r"cannot read '.*nothing': it does not exist"):
        fileset.read_file(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DiskError, match="a folder stands where a file is needed"):
        fileset.write_file(tmp_path / "folder", b"")


def test_what_stands_in_a_files_place_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for put in (lambda: path.symlink_to("x"), lambda: os.mkfifo(path), lambda: path.symlink_to("nowhere")):
        put()
        assert fileset.write_file(path, b"")
        assert path.read_bytes() == b""
        assert list(tmp_path.iterdir()) == [path]
        path.unlink()


def test_checking_a_folder_does_not_make_it(tmp_path: Path) -> None:
    fileset.check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_only_the_disks_own_errors_are_its_trouble() -> None:
    full = fileset.trouble(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x"))
    assert full is not None
    assert full.message == "cannot write '/tmp/x': no space is left on the device"
    long = fileset.trouble(OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "x"))
    assert long is not None
    assert (long.message, long.hint) == ("cannot use 'x': the name is too long", "")
    assert fileset.trouble(FileNotFoundError(errno.ENOENT, "no")) is None


@pytest.mark.parametrize("letter", ["a", "ü"])
def test_a_name_may_be_as_long_as_the_disk_takes_it(letter: str, tmp_path: Path) -> None:
    path = tmp_path / (letter * (255 // len(letter.encode())))
    assert fileset.write_file(path, b"x")
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_while_a_folder_is_held_is_no_fault_of_its_lock(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="elsewhere"), fileset.lock(tmp_path, lambda: None):
        raise PermissionError(errno.EACCES, "elsewhere")


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def busy() -> None:
        order.append("waits")
        waiting.set()

    def second() -> None:
        with fileset.lock(tmp_path, busy):
            order.append("second")

    with fileset.lock(tmp_path, busy):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["waits", "first", "second"]
