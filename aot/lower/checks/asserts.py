"""Assertions of host code become calls of the runtime, which raises a Python error with their text.

In: a module with ``cf.assert`` outside kernels. Out: calls and the table of their messages.

``cf.assert %eq, "mismatched size"`` of the source becomes ``call @aot_rt_assert(%eq, 0)`` and
``"mismatched size (add.mlir:7)"``. Upstream's lowering would print the text and abort the process. What aot checks of a
call (``check``) has numbers in its text: it becomes a branch around ``call @aot_rt_refuse(1, %a, %b, …)``, so a call
that is right costs a comparison. Assertions in kernels stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, cf, scf

from aot import mlir
from aot.lower.analysis import literals, opwalk
from aot.lower.hostmodule import rtcalls

CARRIER = "builtin.unrealized_conversion_cast"
"""Makes of a condition and numbers the condition: ``cf.assert`` has no operands for what its text names."""


def check(holds: ir.Value, text: str, *numbers: ir.Value) -> None:
    """At the insertion point: the call is refused unless the condition holds. The text has ``{}`` for each number."""
    flag = ir.IntegerType.get_signless(1)
    carried = ir.Operation.create(CARRIER, results=[flag], operands=[holds, *numbers]).results[0]
    cf.AssertOp(carried, text)


def fold(module: ir.Module) -> None:
    """Take out the checks that always hold: what they carry keeps canonicalization from doing it."""
    for op in opwalk.named(module, "cf.assert"):
        carrier = _carrier(op)
        if carrier is not None and _always(carrier.operands[0]):
            _erase(op)


def rewrite(module: ir.Module, first: int = 0, earlier: Sequence[str] = ()) -> tuple[str, ...]:
    """Replace host assertions; their messages that are new. The first of the earlier ones has the index ``first``."""
    fold(module)
    messages: list[str] = list(earlier)
    asserted: set[tuple[ir.Block, ir.Value]] = set()
    for op in [each for each in opwalk.named(module, "cf.assert") if not mlir.inside_kernel(each)]:
        carrier = _carrier(op)
        holds, *numbers = carrier.operands if carrier is not None else op.operands
        if (op.block, holds) not in asserted:
            asserted.add((op.block, holds))
            text = _message(op)
            if text not in messages:
                messages.append(text)
            with ir.InsertionPoint(op), op.location:
                number = arith.ConstantOp(ir.IntegerType.get_signless(32), first + messages.index(text)).result
                if carrier is None:
                    rtcalls.call("aot_rt_assert", holds, number)
                else:
                    _refuse_unless(holds, number, numbers)
        _erase(op)
    return tuple(messages[len(earlier) :])


def _refuse_unless(holds: ir.Value, message: ir.Value, numbers: Sequence[ir.Value]) -> None:
    fails = arith.XOrIOp(holds, arith.ConstantOp(holds.type, 1).result).result
    branch = scf.IfOp(fails)
    with ir.InsertionPoint(branch.then_block):
        rest = [rtcalls.index(0)] * (rtcalls.MOST_NUMBERS - len(numbers))
        rtcalls.call("aot_rt_refuse", message, *numbers, *rest)
        scf.YieldOp([])


def _always(condition: ir.Value) -> bool:
    constant = literals.element(condition)
    return isinstance(constant, ir.BoolAttr) and bool(constant.value)


def _carrier(op: ir.Operation) -> ir.Operation | None:
    """Of a check of aot's own."""
    made_by = mlir.owner(op.operands[0])
    return made_by if isinstance(made_by, ir.Operation) and made_by.name == CARRIER else None


def _erase(op: ir.Operation) -> None:
    carrier = _carrier(op)
    op.erase()
    if carrier is not None and not list(carrier.results[0].uses):
        carrier.erase()


def _message(op: ir.Operation) -> str:
    text = str(ir.StringAttr(op.attributes["msg"]).value)
    place = mlir.location_of(op)
    return f"{text} ({place.file}:{place.line})" if place.line else text
