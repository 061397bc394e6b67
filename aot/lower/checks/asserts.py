"""Assertions of host code become calls of the runtime, which raises a Python error with their text.

In: a module with ``cf.assert`` outside kernels. Out: ``@aot_rt_assert`` calls and the table of their messages.

``cf.assert %eq, "mismatched size"`` becomes ``call @aot_rt_assert(%eq, 0)`` and ``"mismatched size (add.mlir:7)"``.
Upstream's lowering would print the text and abort the process. Assertions in kernels stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir
from aot.lower.hostmodule.rtcalls import assert_ as call_assert


def rewrite(module: ir.Module, first: int = 0, earlier: Sequence[str] = ()) -> tuple[str, ...]:
    """Replace host assertions; their messages that are new. The first of the earlier ones has the index ``first``."""
    messages: list[str] = list(earlier)
    asserted: set[tuple[ir.Block, ir.Value]] = set()
    for op in [each for each in mlir.walk(module) if each.name == "cf.assert" and not mlir.inside_kernel(each)]:
        known = (op.block, op.operands[0])
        if known not in asserted:
            asserted.add(known)
            text = _message(op)
            if text not in messages:
                messages.append(text)
            with ir.InsertionPoint(op), op.location:
                call_assert(op.operands[0], first + messages.index(text))
        op.erase()
    return tuple(messages[len(earlier) :])


def _message(op: ir.Operation) -> str:
    text = str(ir.StringAttr(op.attributes["msg"]).value)
    place = mlir.location_of(op)
    return f"{text} ({place.file}:{place.line})" if place.line else text
