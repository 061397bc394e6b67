"""Buffers between the steps of a row that need not be.

In: a parallel loop over rows with several steps. Out: the same, where an element that one step stores and later ones
load is a value, and where a buffer whose last reader writes the same element of another one is that other buffer.

Both only for memory that the function allocates.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views
from aot.lower.general.fusion import operations


def forward(loop: ir.Operation) -> None:
    """Values in place of single elements of the row."""
    body = operations(loop.regions[0].blocks[0])
    for number, op in enumerate(body):
        if op.name == "memref.store" and overlap.is_own(op.operands[1]):
            _forward(op, body[number + 1 :])
    for memory in dict.fromkeys(op.operands[1] for op in body if op.name == "memref.store"):
        _drop_unread(memory)


def _forward(store: ir.Operation, later: list[ir.Operation]) -> None:
    value, memory, *indices = store.operands
    for step in later:
        users = [
            op for op in mlir.walk(step) if any(views.is_memref(v) and views.root(v) == memory for v in op.operands)
        ]
        if any(op.name != "memref.load" for op in users):
            return
        for op in users:
            if list(op.operands) == [memory, *indices]:
                op.results[0].replace_all_uses_with(value)
                op.erase()


def _drop_unread(memory: ir.Value) -> None:
    if not overlap.is_own(memory):
        return
    users = [use.owner.operation for use in memory.uses]
    written = [
        op for op in users if op.name == "memref.store" and op.operands[1] == memory and op.operands[0] != memory
    ]
    freed = [op for op in users if op.name == "memref.dealloc"]
    if len(written) + len(freed) == len(users):
        for op in (*written, *freed):
            op.erase()
        mlir.owner(memory).erase()


def share(loop: ir.Operation) -> None:
    """One buffer in place of two."""
    for store in [op for op in mlir.walk(loop) if op.name == "memref.store"]:
        target = store.operands[1]
        loads = [op for op in operations(store.block) if op.name == "memref.load" and op.is_before_in_block(store)]
        for load in loads:
            source = load.operands[0]
            same = source != target and list(load.operands)[1:] == list(store.operands)[2:]
            if same and _may_share(source, target, store, loop):
                _replace(source, target)
                break


def _may_share(source: ir.Value, target: ir.Value, store: ir.Operation, loop: ir.Operation) -> bool:
    """Whether nothing reads the source once the target is written there, and nobody uses the target before."""
    if not (overlap.is_own(source) and overlap.is_own(target)) or source.type != target.type:
        return False
    if list(mlir.owner(source).operands) != list(mlir.owner(target).operands):
        return False
    if mlir.owner(source).block != loop.block or mlir.owner(target).block != loop.block:
        return False
    indices = list(store.operands)[2:]
    if not _each_once(store, loop, indices):
        return False
    return _read_first(source, store, loop, indices) and _first_written(target, store, loop)


def _each_once(store: ir.Operation, loop: ir.Operation, indices: list[ir.Value]) -> bool:
    """Whether the loops around the store visit each element once."""
    around = [each for each in mlir.parents(store) if each.name in ("scf.parallel", "scf.for", "scf.if", "scf.while")]
    inside = around[: around.index(loop) + 1]
    if any(each.name != "scf.parallel" for each in inside):
        return False
    counters = [value for each in inside for value in each.regions[0].blocks[0].arguments]
    return len(counters) == len(indices) and set(counters) == set(indices)


def _read_first(source: ir.Value, store: ir.Operation, loop: ir.Operation, indices: list[ir.Value]) -> bool:
    """All uses of the source are plain accesses in the loop, the last of them right before the store."""
    last = _step(store, loop)
    for use in source.uses:
        op = use.owner.operation
        if op.name == "memref.dealloc":
            continue
        if (
            op.name not in ("memref.load", "memref.store")
            or loop not in mlir.parents(op)
            or use.operand_number != (op.name == "memref.store")
        ):
            return False
        step = _step(op, loop)
        if step == last:
            same = op.block == store.block and op.is_before_in_block(store) and op.name == "memref.load"
            if not same or list(op.operands)[1:] != indices:
                return False
        elif not step.is_before_in_block(last):
            return False
    return True


def _first_written(target: ir.Value, store: ir.Operation, loop: ir.Operation) -> bool:
    """The store is the only use of the target up to the end of the loop."""
    for use in target.uses:
        op = use.owner.operation
        if op == store:
            continue
        outer = op
        while outer.block != loop.block:
            if outer.parent is None or outer.parent.operation.name == "func.func":
                return False
            outer = outer.parent.operation
        if outer == loop or outer.is_before_in_block(loop):
            return False
    return True


def _step(op: ir.Operation, loop: ir.Operation) -> ir.Operation:
    """The operation of the loop's body that holds another one."""
    body = loop.regions[0].blocks[0]
    while op.block != body:
        op = op.parent.operation
    return op


def _replace(source: ir.Value, target: ir.Value) -> None:
    made_by = mlir.owner(source)
    for use in list(source.uses):
        if use.owner.operation.name == "memref.dealloc":
            use.owner.operation.erase()
    source.replace_all_uses_with(target)
    made_by.erase()
