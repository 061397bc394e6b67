"""Which operations may not be computed together, since memory is read and written in ways that do not commute.

In: operations in program order. Out: why they are no region; "" when they may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views
from aot.lower.fast.regions.operations import Operation

SAME_ORDER = frozenset({"memref.cast", "memref.collapse_shape", "memref.expand_shape"})
"""Views of all elements of a buffer, in its order."""


def whole(value: ir.Value) -> ir.Value:
    """The buffer of which the value is all, in the same order."""
    while isinstance(made_by := mlir.owner(value), ir.Operation) and made_by.name in SAME_ORDER:
        value = made_by.operands[0]
    return value


def find(members: Sequence[Operation], tensors: Collection[ir.Value]) -> str:
    """The reason, of which the last member is the cause. One operation alone has linalg's promise."""
    if len(members) < 2:
        return ""
    made: set[ir.Value] = set()
    read: set[ir.Value] = set()
    for member in members:
        inputs = {whole(each.value) for each in member.operands if each.is_memory and each.read} - made
        outputs = {whole(each.value) for each in member.operands if each.written}
        if outputs & read:
            return "it writes what the operations before it read"
        read |= inputs
        made |= outputs
    return _overlaps(made, read | made, tensors)


def _overlaps(made: set[ir.Value], touched: set[ir.Value], tensors: Collection[ir.Value]) -> str:
    """Two parts of one buffer may overlap, and so may two arguments."""
    for one in made:
        for other in touched - {one}:
            roots = views.root(one), views.root(other)
            if roots[0] == roots[1] or not overlap.separate(*roots, tensors):
                return "arguments may overlap"
    return ""


def only_used_by(memory: ir.Value, ops: set[ir.Operation]) -> Iterator[ir.Operation]:
    """The allocation and all that hangs on it, if nothing else uses it; else nothing."""
    made_by = mlir.owner(memory)
    if not isinstance(made_by, ir.Operation) or made_by.name != "memref.alloc":
        return
    found, work = [made_by], [memory]
    while work:
        for use in work.pop().uses:
            user = use.owner.operation
            if user.name in SAME_ORDER:
                found.append(user)
                work.append(user.results[0])
            elif user.name == "memref.dealloc":
                found.append(user)
            elif user not in ops:
                return
    yield from reversed(found)
