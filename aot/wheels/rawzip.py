"""Zip archives without compressing again what is in them.

In: the bytes of an archive. Out: its members, compressed as they are; from members the bytes of an archive, in which
nothing but the members, their order and one date shows.

>>> members = read(archive([stored("a.txt", b"text")], (1980, 1, 1, 0, 0, 0)))
>>> members["a.txt"].content()
b'text'
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from aot.errors import PackageError

PIECE = 1 << 20
"""Most bytes that are compressed by themselves: large enough to cost next to nothing."""
_FATBIN = re.compile(re.escape(b"\x50\xed\x55\xba\1\0"))
"""Begins a fatbin, of which an extension is full."""
Pieces = tuple[tuple[str, int], ...]
"""Digest and compressed size of each piece but the last one, in order."""
Date = tuple[int, int, int, int, int, int]

_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION, _UNIX, _UTF8 = 20, 3, 0x800
_MODE = 0o100644 << 16
_MOST_FILES, _MOST_BYTES = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True)
class Member:
    """One file."""

    name: str
    method: int
    crc: int
    size: int
    """Before compression, in bytes."""
    data: bytes
    """Compressed."""
    pieces: Pieces = ()
    """Where it is known that ``stored`` has made it."""
    plain: bytes | None = field(default=None, compare=False, repr=False)
    """Before compression, where it is at hand."""

    def holds(self, content: bytes) -> bool:
        """Whether this is the file."""
        return len(content) == self.size and zlib.crc32(content) == self.crc and self.content() == content

    def content(self) -> bytes:
        """The file itself."""
        if self.plain is not None:
            return self.plain
        return zlib.decompress(self.data, -zlib.MAX_WBITS) if self.method == zipfile.ZIP_DEFLATED else self.data


def stored(name: str, content: bytes, before: Member | None = None) -> Member:
    """A new member, compressed: in pieces, as many at a time as there are processors.

    Pieces that ``before`` has as well are taken from it, where it is known to have been made here.
    """
    *pieces, last = _cut(content)
    digests = [hashlib.sha256(piece).hexdigest() for piece in pieces]
    known = dict(_compressed(before)) if before else {}
    new = {digest: piece for digest, piece in zip(digests, pieces, strict=True) if digest not in known}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        ends = [*[zlib.Z_FULL_FLUSH] * len(new), zlib.Z_FINISH]
        *packed, end = threads.map(_packed, [*new.values(), last], ends)
    known |= zip(new, packed, strict=True)
    data = b"".join([*(known[digest] for digest in digests), end])
    made = tuple((digest, len(known[digest])) for digest in digests)
    return Member(name, zipfile.ZIP_DEFLATED, zlib.crc32(content), len(content), data, made, content)


def _cut(content: bytes) -> list[memoryview]:
    """A file in pieces: the same file is always cut alike.

    Where a fatbin begins, the bytes before it decide whether a piece ends there. So a fatbin that becomes longer moves
    no cut behind it, and what is behind it stays as it was compressed.
    """
    view = memoryview(content)
    if len(content) <= PIECE:
        return [view]
    pieces, start, place = [], 0, 0
    for end in (*(found.start() for found in _FATBIN.finditer(content, 1)), len(content)):
        # One in as many as make up a piece, on average.
        if end == len(content) or zlib.crc32(view[place:end]) * PIECE < (end - place) << 32:
            pieces += [view[first : min(first + PIECE, end)] for first in range(start, end, PIECE)]
            start = end
        place = end
    return pieces


def _compressed(member: Member) -> Iterator[tuple[str, bytes]]:
    """Digests of the member's pieces, and what became of them."""
    start = 0
    for digest, size in member.pieces:
        yield digest, member.data[start : start + size]
        start += size


def _packed(piece: memoryview, end: int) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(piece) + packer.flush(end)


def read(data: bytes, pieces: Mapping[str, Pieces] | None = None) -> dict[str, Member]:
    """The files of an archive by their names; ``pieces`` of those that are known to be ``stored``'s."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    return {info.filename: _member(data, info, (pieces or {}).get(info.filename, ())) for info in infos}


def _member(data: bytes, info: zipfile.ZipInfo, pieces: Pieces) -> Member:
    *_, name, extra = _LOCAL.unpack_from(data, info.header_offset)
    start = info.header_offset + _LOCAL.size + name + extra
    content = data[start : start + info.compress_size]
    return Member(info.filename, info.compress_type, info.CRC, info.file_size, content, pieces)


def archive(members: Sequence[Member], date: Date) -> bytes:
    """An archive of members in their order."""
    day = (date[0] - 1980) << 9 | date[1] << 5 | date[2]
    second = date[3] << 11 | date[4] << 5 | date[5] // 2
    total = sum(len(each.data) + 2 * len(each.name.encode()) + _LOCAL.size + _CENTRAL.size for each in members)
    if total > _MOST_BYTES or len(members) > _MOST_FILES:
        raise PackageError(
            f"the wheel would hold {len(members)} files of {total} bytes, more than a wheel can",
            hint="make several packages of the sources",
        )
    out, listed = bytearray(), bytearray()
    for each in members:
        name = each.name.encode()
        flags = 0 if each.name.isascii() else _UTF8
        facts = (_VERSION, flags, each.method, second, day, each.crc, len(each.data), each.size, len(name), 0)
        listed += _CENTRAL.pack(b"PK\1\2", _UNIX << 8 | _VERSION, *facts, 0, 0, 0, _MODE, len(out)) + name
        out += _LOCAL.pack(b"PK\3\4", *facts) + name + each.data
    return bytes(out + listed + _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(listed), len(out), 0))
