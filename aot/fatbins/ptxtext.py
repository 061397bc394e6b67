"""What differs between images whose code is the same: three facts in the text of PTX, and how kernels start.

In: PTX as LLVM writes it. Out: the same code for another processor, ISA version, or position among a source's images.
Only a processor that has the instructions for it keeps the early start of kernels (``aot.lower.gpumodule.earlystart``).

>>> text = b".version 8.8\\n.target sm_80\\n.visible .const .align 4 .u32 aot_image;\\n"
>>> adapted(text, Header("sm_86", (8, 6), 2)).decode()
'.version 8.6\\n.target sm_86\\n.visible .const .align 4 .u32 aot_image = 2;\\n'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aot.targets import arch
from aot.targets.arch import Capability, Version

IMAGE_ID = "aot_image"
"""Device constant (i32) that holds the position of an image among its source's images."""

_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_TARGET = re.compile(rb"^\.target sm_\w+", re.MULTILINE)
_IMAGE = re.compile(rb"(\.u32 %s)(?: = \d+)?;" % IMAGE_ID.encode())

_EARLY_SINCE: Capability = (9, 0)
_EARLY = "{ // early start"
_EARLY_START = re.compile(
    rb"^\t// begin inline asm\n\t%s\n(?:\t(?!//).*\n)+\t// end inline asm\n" % _EARLY.encode(), re.MULTILINE
)

_BEGIN = b".visible .entry "
_NAME = re.compile(rb"^\t// \.globl\t.*\n", re.MULTILINE)
"""Stands before a kernel; that of a module's first one before its variables."""
_FUNCTION_NUMBER = re.compile(rb"(?:(?<=\$L__BB)|(?<=__local_depot))\d+")
"""The number of a function, in its labels and in the name of its stack."""
_NUMBERED = re.compile(rb"// callseq|^\s*(?:\.(?:weak|visible|extern)\s+)?\.func\b|^\s*\.(?:loc|file)\b", re.MULTILINE)
"""What LLVM counts in a module: calls, functions, places in sources."""

_WORD = re.compile(r"[\w$%]+")
_MARK = re.compile(r"[{};\n]")
_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|file)\b|//|$")
"""Begins what ends with its line."""
_VARIABLE = re.compile(r"\.(?:shared|global|const)\s[^;{=(]*?([\w$%]+)(?:\[\d*\])*\s*[=;]")
_FUNCTION = re.compile(r"\.(?:func|entry)\s+(?:\([^)]*\)\s*)?([\w$%]+)")


@dataclass(frozen=True)
class Header:
    """The three."""

    chip: str
    """``sm_86``: a processor that runs the code as it is."""
    version: Version
    """Of the PTX ISA: one that has all instructions of the code, which ptxas checks."""
    image: int
    """Position among the source's images."""


def early_start(many: int) -> str:
    """Assembly that waits for the kernel ahead, then lets the next one begin if there are fewer blocks than ``many``.

    A predicate, no branch: allocations have to stay in the first block.
    """
    lines = (
        _EARLY,
        ".reg .pred %few;",
        ".reg .b32 %blocks, %rows;",
        "griddepcontrol.wait;",
        "mov.u32 %blocks, %nctaid.x;",
        "mov.u32 %rows, %nctaid.y;",
        "mul.lo.s32 %blocks, %blocks, %rows;",
        f"setp.lt.u32 %few, %blocks, {many};",
        "@%few griddepcontrol.launch_dependents;",
        "}",
    )
    return "\n\t".join(lines)


def adapted(text: bytes, header: Header) -> bytes:
    """The code under another header."""
    if arch.target(header.chip).capability < _EARLY_SINCE:
        text = _EARLY_START.sub(b"", text)
    number = b" = %d" % header.image if header.image else b""
    text = _once(_VERSION, b".version %d.%d" % header.version, text)
    text = _once(_TARGET, b".target " + header.chip.encode(), text)
    return _once(_IMAGE, rb"\g<1>" + number + b";", text)


def version(text: bytes) -> Version:
    """The PTX ISA that a text asks for."""
    found = _VERSION.search(text)
    assert found is not None, "PTX without a version"
    return int(found[1]), int(found[2])


def joined(texts: Sequence[bytes]) -> bytes | None:
    """The text of a module, of those of its kernels in pieces; None where more than kernels and variables is in them.

    >>> one, two = (b"\\t// .globl\\t%s\\n.visible .entry %s(){$L__BB0_1:}\\n" % (name, name) for name in (b"a", b"b"))
    >>> joined([one, two]) == one + two.replace(b"BB0", b"BB1")
    True
    """
    parts = [text.partition(_BEGIN) for text in texts]
    names = [_NAME.search(head) for head, _, _ in parts]
    if any(map(_NUMBERED.search, texts)) or not all(names):
        return None
    first, *others = (name[0] for name in names if name is not None)
    heads = [_NAME.sub(first, head, count=1) for head, _, _ in parts]
    most = max(heads, key=len)
    # Where none has all variables, their order is not known.
    if any(set(head.splitlines()) - set(most.splitlines()) for head in heads):
        return None
    made, number = [most], 0
    for name, (_, begin, code) in zip((b"", *others), parts, strict=True):
        made += [name, begin, _renumbered(code, number)]
        number += 1 + code.count(b"\n" + _BEGIN)
    return b"".join(made)


def _renumbered(code: bytes, more: int) -> bytes:
    return _FUNCTION_NUMBER.sub(lambda old: b"%d" % (int(old[0]) + more), code) if more else code


def kernel(text: str, name: str) -> str:
    """A module with one of its kernels, and the variables and functions that it uses; empty without the kernel."""
    items = _items(text)
    named = [(_name(item), item) for item in items]
    code = next((item for symbol, item in named if symbol == name and ".entry" in item.partition("(")[0]), "")
    if not code:
        return ""
    head = [item for item in items if _DIRECTIVE.match(item)]
    return "\n\n".join(["\n".join(head), *_used([each for each in named if each[1] != code], code), code])


def _used(named: Sequence[tuple[str, str]], code: str) -> list[str]:
    """Items that the code names, and those that they name."""
    text, chosen, before = code, set[str](), -1
    while len(chosen) > before:
        before = len(chosen)
        words = set(_WORD.findall(text))
        chosen |= {name for name, _ in named if name in words}
        text = "\n".join([code, *(item for name, item in named if name in chosen)])
    return [item for name, item in named if name in chosen]


def _name(item: str) -> str:
    """Of a function, a kernel or a variable; empty for others."""
    found = re.match(r"(?:\.(?:visible|extern|weak|common)\s+)*", item)
    rest = item[found.end() :] if found else item
    named = _FUNCTION.match(rest) or _VARIABLE.match(rest)
    return named[1] if named else ""


def _items(text: str) -> list[str]:
    """Directives, declarations and definitions of a module."""
    items: list[str] = []
    start = depth = 0
    for mark in _MARK.finditer(text):
        depth += {"{": 1, "}": -1}.get(mark.group(), 0)
        item = text[start : mark.end()].strip()
        closed = mark.group() == "}" and not text[mark.end() :].lstrip(" ").startswith(";")
        if not depth and (mark.group() == ";" or closed or (mark.group() == "\n" and _DIRECTIVE.match(item))):
            items += [item] if item else []
            start = mark.end()
    return items


def _once(pattern: re.Pattern[bytes], replacement: bytes, text: bytes) -> bytes:
    changed, count = pattern.subn(replacement, text, count=1)
    assert count == 1, f"PTX without {pattern.pattern!r}"
    return changed
