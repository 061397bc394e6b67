"""Constants whose numbers the text of a source does not have.

In: a module as it was parsed from text. Out: LoweringError where ``dense_resource<key>`` names data that the file does
not hold; MLIR would read them from nowhere, and crash. Printing with large constants left out makes such files
(``dense_resource<__elided__>``).

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aot import mlir
from aot.errors import LoweringError

_HOLDERS = ("value", "values", "initial_value")
"""Attributes that are constants, of arith.constant, tosa.const and memref.global."""
_KEY = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>')
_ENTRY = re.compile(r'(?:^|[{,\s])("(?:[^"\\\n]|\\.)*"|[\w$.\-]+)\s*:\s*"0x')


def check(module: mlir.Module) -> None:
    """Refuse them; in bytecode they are always there."""
    lines = module.context.aot_lines
    if not any("dense_resource<" in line for line in lines):
        return
    missing = [(op, key) for op in mlir.walk(module) for key in _keys(op)]
    if missing:
        there = _held(lines)
        missing = [(op, key) for op, key in missing if key not in there]
    if missing:
        raise LoweringError(
            f"{module.context.aot_path}: constants without their numbers",
            hint="print the IR with all elements and resources, write it as bytecode, or pass the array as an argument",
            diagnostics=tuple(
                mlir.diagnostic_at(op, f"'dense_resource<{key}>': the file has no data of this name")
                for op, key in missing
            ),
        )


def _keys(op: mlir.Operation) -> Iterator[str]:
    for name in _HOLDERS:
        if name in op.attributes:
            found = _KEY.match(str(mlir.attribute(op, name)))
            if found:
                yield found.group(1)


def _held(lines: list[str]) -> set[str]:
    """Names of the data behind the operations."""
    first = next((number for number, line in enumerate(lines) if "{-#" in line), len(lines))
    return set(_ENTRY.findall("\n".join(lines[first:])))
