"""What differs between images whose code is the same: three facts in the text of PTX.

In: PTX as LLVM writes it. Out: the same code for another processor, ISA version, or position among a source's images.

>>> text = b".version 8.8\\n.target sm_80\\n.visible .const .align 4 .u32 aot_image;\\n"
>>> adapted(text, Header("sm_86", (8, 6), 2)).decode()
'.version 8.6\\n.target sm_86\\n.visible .const .align 4 .u32 aot_image = 2;\\n'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aot.arch import Version

IMAGE_ID = "aot_image"
"""Device constant (i32) that holds the position of an image among its source's images."""

_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_TARGET = re.compile(rb"^\.target sm_\w+", re.MULTILINE)
_IMAGE = re.compile(rb"(\.u32 %s)(?: = \d+)?;" % IMAGE_ID.encode())


@dataclass(frozen=True)
class Header:
    """The three."""

    chip: str
    """``sm_86``: a processor that runs the code as it is."""
    version: Version
    """Of the PTX ISA: one that has all instructions of the code, which ptxas checks."""
    image: int
    """Position among the source's images."""


def adapted(text: bytes, header: Header) -> bytes:
    """The code under another header."""
    number = b" = %d" % header.image if header.image else b""
    text = _once(_VERSION, b".version %d.%d" % header.version, text)
    text = _once(_TARGET, b".target " + header.chip.encode(), text)
    return _once(_IMAGE, rb"\g<1>" + number + b";", text)


def version(text: bytes) -> Version:
    """The PTX ISA that a text asks for."""
    found = _VERSION.search(text)
    assert found is not None, "PTX without a version"
    return int(found[1]), int(found[2])


def _once(pattern: re.Pattern[bytes], replacement: bytes, text: bytes) -> bytes:
    changed, count = pattern.subn(replacement, text, count=1)
    assert count == 1, f"PTX without {pattern.pattern!r}"
    return changed
