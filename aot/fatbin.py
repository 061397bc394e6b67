"""Fatbins: several images in one container, of which the driver takes the one that fits the device.

In: images (cubins and PTX). Out: the container's bytes, made by nvFatbin; and back: the entries of a container.

>>> [entry.target for entry in entries(merge("softmax", [image_80, image_90]))]   # doctest: +SKIP
['sm_80', 'sm_90']
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aot.arch import CUBIN, PTX, target
from aot.errors import LoweringError, ToolMissing, UsageError
from aot.toolchain import Toolchain

COMPRESS: dict[str, tuple[str, ...]] = {
    "none": ("-compress=false",),
    "fast": ("-compress-mode=speed", "-compress-all"),
    "size": ("-compress-mode=size", "-compress-all"),
}
"""nvFatbin's options by our words. Without -compress-all small images stay as they are."""
AUTO = "auto"
"""Smallest, where the cubins need a driver anyway that reads compressed images; else none."""

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHI")
_KINDS = {1: PTX, 2: CUBIN}


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
    number: int
    """Architecture without letter: 90."""
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
    library = _library()
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
    wanted = target(part.target)
    if wanted.kind == CUBIN:
        library.add_cubin(handle, part.data, len(part.data), wanted.number, name)
        return
    text = part.data.rstrip(b"\0") + b"\0"
    library.add_ptx(handle, text, len(text), wanted.number, name, "")


def _library() -> Any:
    try:
        library = importlib.import_module("cuda.bindings.nvfatbin")
        library.version()
    except (ImportError, RuntimeError) as error:
        raise ToolMissing(
            f"nvFatbin cannot be loaded: {error}",
            hint="python -m pip install cuda-bindings nvidia-nvfatbin (both are in 'aot[build]')",
        ) from error
    return library


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
        kind, _, skip, payload, packed, _, _, _, number = _ENTRY.unpack_from(data, at)
        found.append(Entry(_KINDS.get(kind, str(kind)), number, payload, packed != 0))
        at += skip + payload
    if at != end or end > len(data):
        raise LoweringError("a fatbin that is cut off or damaged")
    return tuple(found)
