"""Host operations that touch device memory, moved to the device: into launches of one thread.

In: tensor-level functions whose loops have become launches. Out: the same functions, whose host code touches
device memory only in calls of ``@aot_rt_load_*``, where it waits for a value that it needs itself.

``%v = memref.load %x[]``, ``%w = arith.addf %v, %v``, ``memref.store %w, %y[]``  become one launch;
``%n = memref.load %count[]``, ``scf.for .. to %n``  becomes a call of ``@aot_rt_load_i64``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import effects, opwalk, views
from aot.lower.analysis.demand import Demand
from aot.lower.analysis.effects import Kind
from aot.lower.general.onethread import Group, outline
from aot.lower.hostmodule import rtcalls

HELPER = "dealloc_helper"
"""Prefix of the functions that the deallocation pipeline makes; they work on host memory."""
_WITHOUT_ACCESS = effects.CONTROL | effects.HAND_ON | {"affine.yield", "scf.condition", "scf.yield"}
"""Operations that pass memrefs on without touching the memory, beside pure ones."""


def to_device(module: mlir.Module) -> frozenset[str]:
    """Move all that can be moved; LoweringError, with the place, for what would run on the host all the same.

    Gives the functions in which the host waits for device data, themselves or in functions they call.
    """
    functions = list(_functions(module))
    for function in functions:
        _move_all(function)
    for function in functions:
        _refuse_rest(function)
    return _reading(module)


def _functions(module: mlir.Module) -> Iterator[mlir.Operation]:
    for each in module.body.operations:
        op = each.operation
        if op.name != "func.func" or views.DEVICE_MARK in op.attributes:
            continue
        if not mlir.symbol_name(op).startswith(HELPER) and list(op.regions[0].blocks):
            yield op


def _move_all(op: mlir.Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            _move_block(block)


def _move_block(block: mlir.Block) -> None:
    """Work from the inside out and from the end to the start: later users of a value are launches by then."""
    runs: list[list[tuple[mlir.Operation, Kind]]] = [[]]
    for each in list(block.operations):
        op = each.operation
        kind = effects.kind_of(op)
        if kind is not Kind.BARRIER:
            runs[-1].append((op, kind))
            continue
        runs.append([])
        if op.name in effects.CONTROL:
            _move_all(op)
    for run in reversed(runs):
        for piece in reversed(_pieces(run)):
            _move(piece)


def _pieces(run: Sequence[tuple[mlir.Operation, Kind]]) -> list[list[tuple[mlir.Operation, Kind]]]:
    """Cut a run where the host needs a value of it for something that cannot move, before the run goes on."""
    pieces: list[list[tuple[mlir.Operation, Kind]]] = [[]]
    group = Group()
    for op, kind in run:
        depends = group.feeds(op)
        if depends and not _can_join(op, kind):
            pieces.append([])
            group = Group()
        if kind is Kind.DEVICE or (depends and _can_join(op, kind)):
            group.add(op)
        pieces[-1].append((op, kind))
    return pieces


def _can_join(op: mlir.Operation, kind: Kind) -> bool:
    return kind is Kind.DEVICE or (kind is Kind.PURE and all(effects.storable(r.type) for r in op.results))


def _move(piece: Sequence[tuple[mlir.Operation, Kind]]) -> None:
    """Turn one piece into direct reads of the host, at most one launch, and direct reads again."""
    alive = [(op, kind) for op, kind in piece if not _erase_if_dead(op)]
    device = [op for op, kind in alive if kind is Kind.DEVICE]
    if not device:
        return
    demand = Demand(device[-1])
    first, end = 0, len(device)
    while first < end and _is_direct(device[first], demand):
        first += 1
    while first < end and _is_direct(device[end - 1], demand):
        end -= 1
    if middle := device[first:end]:
        outline(_members([op for op, _ in alive], middle), middle[-1])
    for op in device[:first] + device[end:]:
        _read(op)


def _erase_if_dead(op: mlir.Operation) -> bool:
    if op.name != "memref.load" or list(op.results[0].uses):
        return False
    op.erase()
    return True


def _is_direct(op: mlir.Operation, demand: Demand) -> bool:
    """Whether the host reads the element right from its place: it needs the value, and knows the address."""
    if op.name != "memref.load" or views.global_of(op.operands[0]) is not None:
        return False
    return rtcalls.readable(op.results[0].type) and demand.on_host(op.results[0])


def _read(op: mlir.Operation) -> None:
    buffer, *indices = op.operands
    with ir.InsertionPoint(op), op.location:
        value = rtcalls.load(buffer, indices)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _members(operations: Sequence[mlir.Operation], device: Sequence[mlir.Operation]) -> list[mlir.Operation]:
    """The device operations, what depends on them between them, and what only kernels need behind them."""
    group = Group()
    inside = set(device)
    for op in operations[operations.index(device[0]) :]:
        if op in inside or (group.feeds(op) and effects.is_pure(op)):
            group.add(op)
        if op == device[-1]:
            break
    return [*group.members, *_followers(group, Demand(device[-1]))]


def _followers(group: Group, demand: Demand) -> list[mlir.Operation]:
    """Pure operations behind the last member that move up into the launch: the host does not need them, or cannot
    read what they work on. What they use besides moves in front of the launch."""
    work = [result for op in group.members for result in op.results]
    found: dict[mlir.Operation, None] = {}
    while work:
        value = work.pop()
        for user in [use.owner.operation for use in value.uses]:
            if user not in group.members and user not in found and _follows(user, value, demand):
                found.update((op, None) for op in demand.behind(user, found))
                work.extend(user.results)
    inside = dict(group.members)
    for op in sorted(found, key=cmp_to_key(_by_place)):
        if any(mlir.owner(value) in inside for value in op.operands):
            inside[op] = None
        else:
            op.move_before(demand.anchor)
    return [op for op in inside if op not in group.members]


def _by_place(one: mlir.Operation, other: mlir.Operation) -> int:
    return -1 if one.is_before_in_block(other) else 1


def _follows(op: mlir.Operation, value: mlir.Value, demand: Demand) -> bool:
    behind = op.block == demand.block and demand.anchor.is_before_in_block(op)
    if not behind or not demand.movable(op):
        return False
    return not rtcalls.readable(value.type) or not any(demand.on_host(result) for result in op.results)


def _refuse_rest(function: mlir.Operation) -> None:
    for op in opwalk.on_host(function):
        if op.name in _WITHOUT_ACCESS or effects.is_pure(op):
            continue
        arrays = [value for value in op.operands if views.is_memref(value) and not views.is_host(value)]
        if arrays:
            message = f"'{op.name}' would run on the host, where device memory cannot be accessed"
            raise LoweringError(
                "an operation cannot be moved to the device",
                hint="write it with linalg, tensor, scf or memref operations, or in the body of a gpu.launch",
                diagnostics=(mlir.diagnostic_at(op, message),),
            )


def _reading(module: mlir.Module) -> frozenset[str]:
    """Functions with a call of a load in them or in a function they call."""
    calls: dict[str, set[str]] = {}
    for each in module.body.operations:
        if each.operation.name == "func.func":
            calls[mlir.symbol_name(each)] = {rtcalls.callee(op) for op in mlir.walk(each)}
    reading: set[str] = set(rtcalls.LOADS)
    while grown := {name for name, callees in calls.items() if callees & reading} - reading:
        reading |= grown
    return frozenset(reading - set(rtcalls.LOADS))
