"""Reductions keep their running value in a register.

In: loops made from linalg, in which a reduction loads and stores its result in every iteration. Out: the value is
carried by the loop, loaded once before it and stored once after it.

``scf.for %k { %c = load %C[%i, %j]; ...; store %s, %C[%i, %j] }``  becomes
``%0 = load %C[%i, %j]; %r = scf.for %k iter_args(%c = %0) { ...; yield %s }; store %r, %C[%i, %j]``.

Only for loops that come from linalg: there an element of ``outs`` exists even if the loop runs zero times, and no
other operand may overlap it. A loop that a user wrote promises neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref, scf

from aot import mlir
from aot.lower.analysis import opwalk, views

USER_LOOP = "aot.user_loop"
"""Attribute that tells loops of the source from those made from linalg, during one pass."""


def mark_user_loops(module: ir.Module, *, present: bool) -> None:
    """Put the mark on all sequential loops, or take it off."""
    for op in opwalk.named(module, "scf.for"):
        if present:
            op.attributes[USER_LOOP] = ir.UnitAttr.get()
        elif USER_LOOP in op.attributes:
            del op.attributes[USER_LOOP]


def carry(module: ir.Module) -> None:
    """Carry reductions of all unmarked loops, inner ones first."""
    for loop in [op for op in opwalk.named(module, "scf.for") if USER_LOOP not in op.attributes]:
        cells = _cells(loop) if not len(loop.results) else []
        if cells:
            _carry(loop, cells)


@dataclass(frozen=True)
class _Cell:
    """An element that a loop reads at its start and writes at its end."""

    load: ir.Operation
    store: ir.Operation

    @property
    def memory(self) -> ir.Value:
        return self.load.operands[0]

    @property
    def indices(self) -> list[ir.Value]:
        return list(self.load.operands)[1:]


def _carry(loop: ir.Operation, cells: Sequence[_Cell]) -> None:
    lower, upper, step = list(loop.operands)[:3]
    body = loop.regions[0].blocks[0]
    with ir.InsertionPoint(loop), loop.location:
        first = [memref.LoadOp(cell.memory, cell.indices).result for cell in cells]
        carried = scf.ForOp(lower, upper, step, first)
        with ir.InsertionPoint(carried.body):
            end = scf.YieldOp([cell.store.operands[0] for cell in cells]).operation
    body.arguments[0].replace_all_uses_with(carried.induction_variable)
    for op in [each.operation for each in body.operations][:-1]:
        op.move_before(end)
    for cell, value, result in zip(cells, carried.inner_iter_args, carried.results, strict=True):
        with ir.InsertionPoint(loop), cell.store.location:
            memref.StoreOp(result, cell.memory, cell.indices)
        cell.load.results[0].replace_all_uses_with(value)
        cell.store.erase()
        cell.load.erase()
    loop.erase()


def _cells(loop: ir.Operation) -> list[_Cell]:
    """Elements of invariant place that the loop touches by one load, then one store, and in no other way."""
    body = [op.operation for op in loop.regions[0].blocks[0].operations]
    inside = set(mlir.walk(loop))
    accesses: dict[ir.Value, list[ir.Operation]] = {}
    for op in inside:
        for value in op.operands:
            if views.is_memref(value):
                accesses.setdefault(views.root(value), []).append(op)
    cells = []
    for store in [op for op in body if op.name == "memref.store"]:
        memory = store.operands[1]
        users = accesses[views.root(memory)]
        load = next((op for op in users if op.name == "memref.load"), None)
        if load is None or len(users) != 2 or load not in body or body.index(load) > body.index(store):
            continue
        same_place = list(load.operands) == list(store.operands)[1:]
        if same_place and not any(_made_inside(value, loop, inside) for value in load.operands):
            cells.append(_Cell(load, store))
    return cells


def _made_inside(value: ir.Value, loop: ir.Operation, inside: set[ir.Operation]) -> bool:
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Block):
        return made_by == loop.regions[0].blocks[0] or made_by.owner.operation in inside
    return made_by in inside
