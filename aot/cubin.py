"""Facts in a cubin (an ELF file): its kernels, and their registers, block sizes and lengths.

In: a cubin's bytes. Out: CubinKernels, read from the ``.nv.info`` sections, whose attributes are what the
driver goes by.
"""

from __future__ import annotations

import importlib
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aot.errors import LoweringError

_FORMAT_SIZED = 0x04
_REGISTERS, _MAX_THREADS, _REQUIRED_THREADS = 0x2F, 0x05, 0x10
_NEW_ABI = 8


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


def kernels(data: bytes) -> tuple[CubinKernel, ...]:
    """All kernels of a cubin, sorted by name."""
    elf = _elf(data)
    symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
    registers = {symbol: count for tag, (symbol, count) in _pairs(elf, ".nv.info") if tag == _REGISTERS}
    found = []
    for index, symbol in enumerate(symbols):
        info = elf.get_section_by_name(f".nv.info.{symbol.name}") if symbol.name else None
        if info is None or symbol["st_info"]["type"] != "STT_FUNC":
            continue
        block = next(
            (value for tag, value in _attributes(info.data()) if tag in (_MAX_THREADS, _REQUIRED_THREADS)), None
        )
        x_y_z = struct.unpack("<3I", block[:12]) if block else None
        code = elf.get_section(symbol["st_shndx"]).data_size
        found.append(CubinKernel(symbol.name, registers.get(index, 0), x_y_z, code))
    return tuple(sorted(found, key=lambda each: each.name))


def number(data: bytes) -> int:
    """Architecture that a cubin was made for, without its letter: 90."""
    flags = int(_elf(data)["e_flags"])
    # CUDA 13 moved the number up by a byte, together with a new ABI version of the file format.
    return flags >> 8 & 0xFF if data[8] >= _NEW_ABI else flags & 0xFF


def load() -> None:
    """Import the reader of ELF files, which takes longer than to read one."""
    importlib.import_module("elftools.elf.elffile")


def _elf(data: bytes) -> Any:
    # Imported here: this module is reached by commands that need no build extra.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(data))
    except ELFError as error:
        raise LoweringError(f"not a cubin: {error}") from error


def _pairs(elf: Any, section: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Attributes that are a symbol's index and a number."""
    found = elf.get_section_by_name(section)
    for tag, value in _attributes(found.data()) if found is not None else ():
        if len(value) == 8:
            symbol, number = struct.unpack("<2I", value)
            yield tag, (symbol, number)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each attribute: a format byte, a tag byte, then two bytes of value or of its size."""
    at = 0
    while at + 4 <= len(data):
        form, tag, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _FORMAT_SIZED:
            yield tag, data[at : at + size]
            at += size
