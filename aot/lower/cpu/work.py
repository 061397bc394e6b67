"""How much work an iteration of a parallel loop is, to be worked out when it begins.

In: a nest of loops. Out: at the insertion point in front of it, the number of iterations that are worth a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.hostmodule import rtcalls
from aot.lower.launches.nests import Loops, at_least, product, trips

_WORK = 1 << 19
"""Operations on elements that are worth waking a thread for."""
_COSTS = {"math": 16, "arith.divf": 4, "arith.divsi": 16, "arith.divui": 16, "arith.remsi": 16, "arith.remui": 16}
"""Of operations or dialects, in simple operations; others cost one."""
_UNKNOWN_TRIPS = 16
"""Iterations of loops whose bounds are only known inside."""


def grain(inner: Sequence[ir.Value], nest: ir.Operation) -> ir.Value:
    """Iterations that are worth a thread. ``inner``: extents of the nest's loops that belong to one iteration."""
    each = at_least(product([*inner, _cost(nest.regions[0].blocks[0], nest)]), 1)
    return at_least(arith.DivUIOp(rtcalls.index(_WORK), each).result, 1)


def _cost(block: ir.Block, nest: ir.Operation) -> ir.Value:
    """Operations that one iteration of the nest does, at the insertion point in front of it."""
    own, total = 1, None
    for each in block.operations:
        op = each.operation
        own += _COSTS.get(op.name, _COSTS.get(op.name.split(".")[0], 1))
        for region in op.regions:
            for inner in region.blocks:
                part = product([_inner_trips(op, nest), _cost(inner, nest)])
                total = part if total is None else arith.AddIOp(total, part).result
    return rtcalls.index(own) if total is None else arith.AddIOp(total, rtcalls.index(own)).result


def _inner_trips(op: ir.Operation, nest: ir.Operation) -> ir.Value:
    if op.name == "scf.if":
        return rtcalls.index(1)
    inside = set(mlir.walk(nest))
    bounds = Loops.of(op).bounds if op.name == "scf.parallel" else ()
    if op.name == "scf.for":
        lower, upper, step = list(op.operands)[:3]
        bounds = ((lower, upper, step),)
    return product([_expected(*each, inside) for each in bounds]) if bounds else rtcalls.index(_UNKNOWN_TRIPS)


def _expected(lower: ir.Value, upper: ir.Value, step: ir.Value, inside: set[ir.Operation]) -> ir.Value:
    """Iterations of a loop of the nest, at the insertion point in front of it: exact, or those of a whole strip."""
    strip = _strip(lower, upper)
    if strip is not None and (width := literals.whole(step)):
        return rtcalls.index(max(1, strip // width))
    copies = [_copied(value, inside) for value in (lower, upper, step)]
    known = [each for each in copies if each is not None]
    return trips(*known) if len(known) == len(copies) else rtcalls.index(_UNKNOWN_TRIPS)


def _strip(lower: ir.Value, upper: ir.Value) -> int | None:
    """``c`` where the upper end is the lower one plus ``c``, or the end of everything."""
    made_by = mlir.owner(upper)
    if isinstance(made_by, ir.Block) or made_by.name not in ("arith.minsi", "arith.select"):
        return None
    for each in list(made_by.operands)[-2:]:
        op = mlir.owner(each)
        if isinstance(op, ir.Operation) and op.name == "arith.addi" and op.operands[0] == lower:
            return literals.whole(op.operands[1])
    return None


def _copied(value: ir.Value, inside: set[ir.Operation]) -> ir.Value | None:
    """The value in front of the nest: arithmetic on values from there is done again."""
    if not _made_in(value, inside):
        return value
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Block) or len(made_by.regions) or not made_by.name.startswith("arith."):
        return None
    operands = [_copied(each, inside) for each in made_by.operands]
    known = [each for each in operands if each is not None]
    if len(known) < len(operands):
        return None
    copy = made_by.clone().operation
    for number, each in enumerate(known):
        copy.operands[number] = each
    return copy.results[ir.OpResult(value).result_number]


def _made_in(value: ir.Value, inside: set[ir.Operation]) -> bool:
    made_by = mlir.owner(value)
    return (made_by.owner.operation if isinstance(made_by, ir.Block) else made_by) in inside
