"""The body of a linalg operation, repeated for one element.

In: a body, a value for each of its arguments that is needed, and the loops' indices. Out: the values asked for,
computed at the insertion point.

>>> evaluate(body, [x, y], indices, [yielded])                                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from aot import mlir


def evaluate(
    body: ir.Block,
    arguments: Sequence[ir.Value | None],
    index: Callable[[int], ir.Value],
    wanted: Sequence[ir.Value],
) -> list[ir.Value]:
    """Values of the body for one element; operations that they do not need are left out."""
    values = {own: given for own, given in zip(body.arguments, arguments, strict=True) if given is not None}
    for op in _needed(body, wanted):
        if op.name == "linalg.index":
            values[op.results[0]] = index(ir.IntegerAttr(op.attributes["dim"]).value)
            continue
        copy = op.clone().operation
        for inner in mlir.walk(copy) if len(copy.regions) else [copy]:
            for number, operand in enumerate(inner.operands):
                if operand in values:
                    inner.operands[number] = values[operand]
        for old, new in zip(op.results, copy.results, strict=True):
            values[old] = new
    return [values.get(value, value) for value in wanted]


def _needed(body: ir.Block, wanted: Sequence[ir.Value]) -> list[ir.Operation]:
    """Operations that the values come from, in order."""
    live = set(wanted)
    found = []
    for op in reversed([each.operation for each in body.operations][:-1]):
        if any(result in live for result in op.results):
            found.append(op)
            live.update(value for inner in mlir.walk(op) for value in inner.operands)
    return found[::-1]
