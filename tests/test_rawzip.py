"""Archives that are written without compressing again: what Python's own reader finds in them."""

from __future__ import annotations

import io
import random
import zipfile

import pytest

from aot.errors import PackageError
from aot.wheels import rawzip

DATE = (2023, 11, 14, 22, 13, 20)
FILES = {
    "a.txt": b"text",
    "empty": b"",
    "ünïcode.txt": "✓".encode(),
    "large": random.Random(1).randbytes(rawzip.PIECE // 8) * 20 + b"end",
}


def test_what_is_written_can_be_read() -> None:
    data = rawzip.archive([rawzip.stored(name, content) for name, content in FILES.items()], DATE)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {info.filename: archive.read(info) for info in archive.infolist()} == FILES
        assert {(info.date_time, info.external_attr >> 16) for info in archive.infolist()} == {(DATE, 0o100644)}


def test_members_of_any_archive_are_kept_as_they_are() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "a.txt" else None)
        archive.writestr("folder/", b"")
    members = rawzip.read(out.getvalue())
    assert {name: member.content() for name, member in members.items()} == FILES
    assert all(
        members[name].holds(content) and not members[name].holds(content + b"!") for name, content in FILES.items()
    )
    again = rawzip.read(rawzip.archive(list(members.values()), DATE))
    assert again == members


def test_more_than_a_zip_file_can_hold() -> None:
    member = rawzip.stored("a", b"")
    with pytest.raises(PackageError, match="65536 files"):
        rawzip.archive([member] * 65536, DATE)


@pytest.mark.parametrize("place", [0, rawzip.PIECE, 2 * rawzip.PIECE + 7, 3 * rawzip.PIECE])
def test_pieces_that_are_there_are_taken(place: int) -> None:
    mark = b"\0\0\xff\xff"
    content = random.Random(2).randbytes(rawzip.PIECE) + b"text" * rawzip.PIECE + mark * 1000
    content += random.Random(3).randbytes(rawzip.PIECE)
    changed = content[:place] + b"?" + content[place + 1 :]
    before = rawzip.stored("a", content)
    assert rawzip.stored("a", changed, before) == rawzip.stored("a", changed)
    assert rawzip.stored("a", changed[: rawzip.PIECE], before) == rawzip.stored("a", changed[: rawzip.PIECE])


def fatbin(seed: int, size: int) -> bytes:
    return b"\x50\xed\x55\xba\1\0\x10\0" + random.Random(seed).randbytes(size)


@pytest.mark.parametrize("more", [0, 1, 128, 3 * rawzip.PIECE])
def test_a_longer_fatbin_changes_few_pieces(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fatbins = [fatbin(seed, 50_000 + 1000 * (seed % 7)) for seed in range(200)]
    head = random.Random(4).randbytes(rawzip.PIECE + 12345)
    before = rawzip.stored("a", head + b"".join(fatbins))
    changed = head + b"".join([*fatbins[:20], fatbin(1000, 50_000 + more), *fatbins[21:]])
    expected = rawzip.stored("a", changed)
    assert b"".join(map(bytes, rawzip._cut(changed))) == changed
    assert max(map(len, rawzip._cut(changed))) <= rawzip.PIECE
    packed: list[int] = []
    pack = rawzip._packed
    monkeypatch.setattr(rawzip, "_packed", lambda piece, end: packed.append(len(piece)) or pack(piece, end))
    assert rawzip.stored("a", changed, before) == expected
    assert sum(packed) < 6 * rawzip.PIECE + more, "of 11 million bytes"
    # Without what is known of its pieces, a member is only compressed again.
    (bare,) = rawzip.read(rawzip.archive([before], DATE)).values()
    assert rawzip.stored("a", changed, bare) == expected
    (told,) = rawzip.read(rawzip.archive([before], DATE), {"a": before.pieces}).values()
    assert rawzip.stored("a", changed, told) == expected
