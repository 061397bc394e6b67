"""Facts in a cubin (an ELF file): its kernels, and their registers, block sizes and lengths.

In: a cubin's bytes. Out: CubinKernels, read from the ``.nv.info`` sections, whose attributes are what the
driver goes by.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from aot.errors import LoweringError

_FORMAT_SIZED = 0x04
_REGISTERS, _MAX_THREADS, _REQUIRED_THREADS = 0x2F, 0x05, 0x10
_NEW_ABI = 8
_INFO = ".nv.info"
_MAGIC = b"\x7fELF\x02\x01"
"""And then: 64 bits, the lowest byte first."""
_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_MACHINE, _SEGMENTS, _TABLE, _FLAGS = 2, 5, 6, 7
"""Fields of it: the machine, where the tables of segments and of sections begin, and flags."""
_CUDA = 190
"""The machine."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NO_BITS, _FUNCTION = 8, 2
"""Types of a section that takes no room in the file, and of a symbol."""


@dataclass(frozen=True)
class CubinKernel:
    """A kernel in a cubin."""

    name: str
    registers: int
    max_block: tuple[int, int, int] | None
    """Block size promised in the code (.maxntid or .reqntid), in threads; None when there is none."""
    code_bytes: int
    """Of machine code."""

    def max_threads(self) -> int | None:
        """The promised block size as one number."""
        return None if self.max_block is None else self.max_block[0] * self.max_block[1] * self.max_block[2]


@dataclass(frozen=True)
class _Section:
    """A section of an ELF file."""

    name: str
    data: bytes
    link: int
    """Number of another section that it speaks of: a table of symbols names the one of their names."""


def kernels(data: bytes) -> tuple[CubinKernel, ...]:
    """All kernels of a cubin, sorted by name; LoweringError when it is none."""
    try:
        return _kernels(_sections(data))
    except (LookupError, ValueError, struct.error) as error:
        raise LoweringError(f"not a cubin: its sections, symbols or names are damaged: {error}") from error


def _kernels(sections: list[_Section]) -> tuple[CubinKernel, ...]:
    by_name = {each.name: each for each in sections}
    registers = {symbol: count for tag, symbol, count in _pairs(by_name.get(_INFO)) if tag == _REGISTERS}
    found = []
    for index, (name, kind, place) in enumerate(_symbols(by_name[".symtab"], sections)):
        info = by_name.get(f"{_INFO}.{name}") if name else None
        if info is None or kind != _FUNCTION:
            continue
        tags = (_MAX_THREADS, _REQUIRED_THREADS)
        block = next((value for tag, value in _attributes(info.data) if tag in tags), None)
        x_y_z = struct.unpack("<3I", block[:12]) if block else None
        found.append(CubinKernel(name, registers.get(index, 0), x_y_z, len(sections[place].data)))
    return tuple(sorted(found, key=lambda each: each.name))


def number(data: bytes) -> int:
    """Architecture that a cubin was made for, without its letter: 90; LoweringError when it is none, or not whole."""
    flags = int(_header(data)[_FLAGS])
    # CUDA 13 moved the number up by a byte, together with a new ABI version of the file format.
    return flags >> 8 & 0xFF if data[8] >= _NEW_ABI else flags & 0xFF


def _header(data: bytes) -> tuple[int, ...]:
    """Fields of the file's header. A library for all ELF files takes a tenth of ptxas' time for a small kernel."""
    if not data.startswith(_MAGIC) or len(data) < _FILE.size:
        raise LoweringError("not a cubin: it does not begin as an ELF file of 64 bits does")
    header = _FILE.unpack_from(data)
    if header[_MACHINE] != _CUDA:
        raise LoweringError(f"not a cubin: it is for an ELF machine {header[_MACHINE]}, not for CUDA ({_CUDA})")
    segment, segments, section, sections, _ = header[-5:]
    ends = (header[_SEGMENTS] + segment * segments, header[_TABLE] + section * sections)
    if section != _SECTION.size or max(ends) > len(data):
        raise LoweringError("not a cubin: it is cut off, or its header is damaged")
    return header


def _sections(data: bytes) -> list[_Section]:
    """All sections, by number."""
    header = _header(data)
    first, (size, count, names) = header[_TABLE], header[-3:]
    entries = [_SECTION.unpack_from(data, first + size * each) for each in range(count)]
    kept = [b"" if kind == _NO_BITS else data[at : at + long] for _, kind, _, _, at, long, *_ in entries]
    return [_Section(_text(kept[names], entry[0]), own, entry[6]) for entry, own in zip(entries, kept, strict=True)]


def _symbols(table: _Section, sections: list[_Section]) -> Iterator[tuple[str, int, int]]:
    """Name and type of each symbol, and the number of the section where it is defined."""
    names = sections[table.link].data
    for name, info, _, place, _, _ in _SYMBOL.iter_unpack(table.data):
        yield _text(names, name), info & 0xF, place


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode("utf-8", "replace")


def _pairs(section: _Section | None) -> Iterator[tuple[int, int, int]]:
    """Tag, symbol and number of attributes that are a symbol's index and a number."""
    for tag, value in _attributes(section.data) if section is not None else ():
        if len(value) == 8:
            yield tag, *struct.unpack("<2I", value)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each attribute: a format byte, a tag byte, then two bytes of value or of its size."""
    at = 0
    while at + 4 <= len(data):
        form, tag, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _FORMAT_SIZED:
            yield tag, data[at : at + size]
            at += size
