"""Fatbins: several images in one container, of which the driver takes the one that fits the device.

In: images (cubins and PTX). Out: the container's bytes, made by nvFatbin; and back: the entries of a container.

>>> [entry.target for entry in entries(merge("softmax", [image_80, image_90]))]   # doctest: +SKIP
['sm_80', 'sm_90']
"""

from __future__ import annotations

import importlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aot.errors import LoweringError, ToolMissing, UnknownArch, UsageError
from aot.fatbins import cubin
from aot.model import FatBinary, Image
from aot.targets.arch import CUBIN, PTX, target
from aot.tools.toolchain import Toolchain

COMPRESS: dict[str, tuple[str, ...]] = {
    "none": ("-compress=false",),
    "fast": ("-compress-mode=speed", "-compress-all"),
    "size": ("-compress-mode=size", "-compress-all"),
}
"""nvFatbin's options by our words. Without -compress-all small images stay as they are."""
FATBIN = "fatbin"
AUTO = "auto"
"""Smallest, where the cubins need a driver anyway that reads compressed images; else none."""

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQ")
_KINDS = {1: PTX, 2: CUBIN}
_CUBIN_KIND = 2
_LETTERS = ((0x100000, "a"), (0x200000, "f"))
"""Bits of an entry's flags that tell the feature letter (as nvFatbin sets them)."""


@dataclass(frozen=True)
class Part:
    """One image on its way into a fatbin."""

    target: str
    """``sm_90a`` or ``compute_90``."""
    data: bytes
    """A cubin, or PTX text."""


@dataclass(frozen=True)
class Entry:
    """One image in a fatbin, as its header tells."""

    kind: str
    """``cubin`` or ``ptx``; others (``lto`` …) by number."""
    target: str
    """``sm_90a`` or ``compute_90``."""
    bytes: int
    """In the container, after compression."""
    compressed: bool


def compression(mode: str, tools: Toolchain) -> str:
    """The mode that ``auto`` stands for; UsageError for an unknown word."""
    if mode == AUTO:
        return "size" if tools.cuda[0] >= 13 else "none"
    if mode not in COMPRESS:
        raise UsageError(f"unknown compression '{mode}'; choose one of {', '.join((*COMPRESS, AUTO))}")
    return mode


def merge(name: str, parts: Sequence[Part], mode: str = "none") -> bytes:
    """One fatbin of all parts; ``name`` is the identifier that inspection tools show."""
    # nvFatbin takes two images of one target without a word, and a load then finds one of them only.
    targets = [part.target for part in parts]
    assert len(set(targets)) == len(targets), f"two images of one target: {targets}"
    library = load()
    options = ["-64", *COMPRESS[mode]]
    try:
        handle = library.create(options, len(options))
        for part in parts:
            _add(library, handle, part, name)
        made = bytearray(library.size(handle))
        library.get(handle, made)
        library.destroy(handle)
    except library.nvFatbinError as error:
        raise LoweringError(f"{name}: nvFatbin refuses the images {', '.join(targets)}: {error}") from error
    return bytes(made)


def _add(library: Any, handle: Any, part: Part, name: str) -> None:
    kind, number = part.target.split("_")
    if kind == "sm":
        library.add_cubin(handle, part.data, len(part.data), number, name)
        return
    text = part.data.rstrip(b"\0") + b"\0"
    library.add_ptx(handle, text, len(text), number, name, "")


def load() -> Any:
    """nvFatbin; ToolMissing when it is not there."""
    try:
        library = importlib.import_module("cuda.bindings.nvfatbin")
        library.version()
    except (ImportError, RuntimeError) as error:
        raise ToolMissing(
            f"nvFatbin cannot be loaded: {error}",
            hint="python -m pip install cuda-bindings nvidia-nvfatbin (both are in 'aot[build]')",
        ) from error
    return library


@dataclass(frozen=True)
class Given:
    """An object of a gpu.binary that the user's source holds ready-made."""

    kind: str
    """``cubin``, ``ptx`` or ``fatbin``."""
    data: bytes
    chip: str = ""
    """As its target attribute says it; the bytes are believed first."""


def adopt(name: str, given: Sequence[Given], mode: str = "none") -> FatBinary:
    """Ready-made objects as a source's fatbin: a fatbin as it is, cubins and PTX merged."""
    fatbins = [each for each in given if each.kind == FATBIN]
    if fatbins and len(given) > 1:
        raise LoweringError(
            f"{name}: a ready fatbin can only be the single object of a source; this one holds {len(given)}",
            hint="merge them with the tool that made them, or put each in a source of its own",
        )
    if fatbins:
        found = entries(fatbins[0].data)
        return FatBinary(fatbins[0].data, tuple(Image(e.target, e.target, e.kind, e.bytes) for e in found))
    parts = [Part(_target_of(name, each), each.data) for each in given]
    repeated = sorted({part.target for part in parts if sum(part.target == each.target for each in parts) > 1})
    if repeated:
        raise LoweringError(
            f"{name}: two ready objects for {', '.join(repeated)}; a driver would find only one of them"
        )
    images = tuple(Image(p.target, p.target, g.kind, len(p.data)) for p, g in zip(parts, given, strict=True))
    return FatBinary(merge(name, parts, mode), images)


def _target_of(name: str, given: Given) -> str:
    if given.kind == PTX:
        found = re.search(rb"^\s*\.target\s+sm_(\d+)([af]?)", given.data, re.MULTILINE)
        if found is None:
            raise LoweringError(f"{name}: ready PTX without a .target line")
        # Kept with its letter where it has one: such PTX is the user's own choice.
        return f"compute_{found[1].decode()}{found[2].decode()}"
    try:
        number = cubin.number(given.data)
        target(f"sm_{number}")
    except (LoweringError, UnknownArch) as error:
        raise LoweringError(f"{name}: a ready object cannot be taken: {error.message}") from error
    same = given.chip.rstrip("af") == f"sm_{number}"
    return given.chip if same else f"sm_{number}"


def is_fatbin(data: bytes) -> bool:
    """Whether the bytes begin as a fatbin does."""
    return len(data) >= _HEADER.size and _HEADER.unpack_from(data)[0] == _MAGIC


def entries(data: bytes) -> tuple[Entry, ...]:
    """What a fatbin holds, in its order; LoweringError for bytes that are none."""
    if not is_fatbin(data):
        raise LoweringError("not a fatbin: its magic number is missing")
    _, _, header, size = _HEADER.unpack_from(data)
    found, at, end = [], header, header + size
    while at + _ENTRY.size <= min(end, len(data)):
        kind, _, skip, payload, packed, _, _, _, number, _, _, flags = _ENTRY.unpack_from(data, at)
        letter = next((name for bit, name in _LETTERS if flags & bit), "")
        prefix = "sm" if kind == _CUBIN_KIND else "compute"
        found.append(Entry(_KINDS.get(kind, str(kind)), f"{prefix}_{number}{letter}", payload, packed != 0))
        at += skip + payload
    if at != end or end > len(data):
        raise LoweringError("a fatbin that is cut off or damaged")
    return tuple(found)
