"""Zip archives without compressing again what is in them.

In: the bytes of an archive. Out: its members, compressed as they are; from members the bytes of an archive, in which
nothing but the members, their order and one date shows.

>>> members = read(archive([stored("a.txt", b"text")], (1980, 1, 1, 0, 0, 0)))
>>> members["a.txt"].content()
b'text'
"""

from __future__ import annotations

import functools
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from aot.errors import PackageError

PIECE = 1 << 20
"""Bytes that are compressed by themselves: the same whoever does it, and large enough to cost next to nothing."""
_FLUSHED = re.compile(re.escape(b"\0\0\xff\xff"))
"""What a piece ends with, unless it is the last one."""
_NOTHING_MORE = b"\3\0"
"""A last block without content."""
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

    @functools.cached_property
    def pieces(self) -> dict[bytes, bytes]:
        """The pieces that ``stored`` made it of, and what became of each, without the last one."""
        return dict(_pieces(self.data)) if self.size > PIECE else {}

    def holds(self, content: bytes) -> bool:
        """Whether this is the file."""
        return len(content) == self.size and zlib.crc32(content) == self.crc and self.content() == content

    def content(self) -> bytes:
        """The file itself."""
        return zlib.decompress(self.data, -zlib.MAX_WBITS) if self.method == zipfile.ZIP_DEFLATED else self.data


def stored(name: str, content: bytes, before: Member | None = None) -> Member:
    """A new member, compressed: in pieces, as many at a time as there are processors.

    Pieces that ``before``, which was made here too, has as well are taken from it.
    """
    *pieces, last = [content[first : first + PIECE] for first in range(0, len(content), PIECE)] or [b""]
    known = dict(before.pieces) if before else {}
    new = [piece for piece in pieces if piece not in known]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        *packed, end = threads.map(_packed, [*new, last], [*[zlib.Z_FULL_FLUSH] * len(new), zlib.Z_FINISH])
    known |= zip(new, packed, strict=True)
    data = b"".join([*(known[piece] for piece in pieces), end])
    return Member(name, zipfile.ZIP_DEFLATED, zlib.crc32(content), len(content), data)


def _pieces(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The pieces of a compressed file and what became of each, without the last one."""
    start, fed, content, unpacker = 0, 0, b"", zlib.decompressobj(-zlib.MAX_WBITS)
    for mark in _FLUSHED.finditer(data):
        content += unpacker.decompress(data[fed : mark.end()])
        fed = mark.end()
        # The same four bytes may come up anywhere else.
        if len(content) == PIECE and _whole(unpacker):
            yield content, data[start:fed]
            start, content, unpacker = fed, b"", zlib.decompressobj(-zlib.MAX_WBITS)


def _whole(unpacker: zlib._Decompress) -> bool:
    """Whether what was unpacked ends with a block."""
    probe = unpacker.copy()
    return probe.decompress(_NOTHING_MORE) == b"" and probe.eof


def _packed(piece: bytes, end: int) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(piece) + packer.flush(end)


def read(data: bytes) -> dict[str, Member]:
    """The files of an archive by their names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    return {info.filename: _member(data, info) for info in infos}


def _member(data: bytes, info: zipfile.ZipInfo) -> Member:
    *_, name, extra = _LOCAL.unpack_from(data, info.header_offset)
    start = info.header_offset + _LOCAL.size + name + extra
    return Member(info.filename, info.compress_type, info.CRC, info.file_size, data[start : start + info.compress_size])


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
