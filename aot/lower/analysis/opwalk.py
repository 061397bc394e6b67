"""Operations by their names, without a list of all others.

In: a module or an operation, and names. Out: the operations that have them.

A walk visits every operation in Python; kernels are most of a module, and steps for host code care for few of it.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir


def named(op: mlir.Operation, *names: str) -> list[mlir.Operation]:
    """The operations of ``walk`` that have one of these names."""
    found: list[mlir.Operation] = []
    add, on = found.append, ir.WalkResult.ADVANCE

    def keep(each: mlir.Operation) -> ir.WalkResult:
        if each.name in names:
            add(each.operation)
        return on

    op.operation.walk(keep)
    return found


def on_host(op: mlir.Operation) -> list[mlir.Operation]:
    """The operations of ``walk`` that are not inside a kernel, ``op`` included."""
    found: list[mlir.Operation] = []
    if op.name not in mlir.KERNEL_SCOPES:
        for region in op.regions:
            for block in region.blocks:
                for each in block.operations:
                    found += on_host(each.operation)
    found.append(op)
    return found


def holds(op: mlir.Operation, name: str) -> bool:
    """Whether an operation of this name is in ``op``, or is it; looks no further than the first."""
    result, order = ir.WalkResult, ir.WalkOrder.PRE_ORDER
    on, end = result.ADVANCE, result.INTERRUPT
    seen: list[bool] = []

    def look(each: mlir.Operation) -> ir.WalkResult:
        if each.name != name:
            return on
        seen.append(True)
        return end

    op.operation.walk(look, order)
    return bool(seen)
