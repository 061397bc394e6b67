"""Where operations of linalg are whose bodies do not fit their types: MLIR makes these bodies, and tells no place.

In: the text of a source, and what MLIR said of it without a place. Out: the same, at the first operation of which MLIR
says it when it stands alone.

``linalg.add ins(%x, %y : tensor<4xf16>, tensor<4xf16>) outs(%z : tensor<4xf32>)`` becomes a source with one function.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from aot import mlir
from aot.errors import Diagnostic

_BODY = "'linalg.yield' op type of yield operand"
_NAMED = re.compile(r"(?P<op>linalg\.\w+[^%]*?)ins\([^:)]*:(?P<ins>[^)]*)\)\s*outs\([^:)]*:(?P<outs>[^)]*)\)")
"""Up to the types, which have no brackets but in layouts."""
_ADVICE = "convert operands before the operation, which computes in their type, or its result"
_MOST = 100
"""Operations that are looked at."""


def placed(ctx: mlir.Context, found: Diagnostic) -> Diagnostic:
    """The diagnostic with its line, if it is one of these, and there is text."""
    if found.line or not found.message.startswith(_BODY):
        return found
    for line, alone in _operations("\n".join(ctx.aot_lines)):
        if found.message in mlir.complaints(alone, ctx):
            return mlir.quoted(ctx, replace(found, message=f"{found.message}; {_ADVICE}", file=ctx.aot_path, line=line))
    return found


def _operations(text: str) -> Iterator[tuple[int, str]]:
    """Lines of named operations, and for each a source that has it alone."""
    for each in itertools.islice(_NAMED.finditer(text), _MOST):
        inputs, results = (_split(types) for types in each.group("ins", "outs"))
        values = [f"%v{number}" for number in range(len(inputs) + len(results))]
        arguments = ", ".join(f"{value}: {kind}" for value, kind in zip(values, inputs + results, strict=True))
        ins, outs = ", ".join(values[: len(inputs)]), ", ".join(values[len(inputs) :])
        made = f" -> {', '.join(results)}" if "tensor<" in each["outs"] else ""
        op = f"{each['op']}ins({ins} : {each['ins']}) outs({outs} : {each['outs']}){made}"
        yield text.count("\n", 0, each.start()) + 1, f"func.func @f({arguments}) {{\n{op}\nreturn\n}}"


def _split(types: str) -> list[str]:
    """Types between commas that stand in no other type."""
    parts, depth = [""], 0
    for letter in types:
        depth += {"<": 1, "[": 1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts]
