"""Branches around what is emitted, in host code or in a kernel; none where it is known which way the code goes.

In: conditions, each known when the package is built or a value, and what emits the code. Out: ``scf.if`` operations at
the insertion point, and the values that one of two ways gives.

>>> either(aligned, lambda: launch(width=4), lambda: launch(width=1))     # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import scf

Emitter = Callable[[], None]
Maker = Callable[[], Sequence[ir.Value]]


def either(condition: ir.Value | bool, then: Emitter, otherwise: Emitter) -> None:
    """Emit one of two, or both under the condition."""
    if isinstance(condition, bool):
        (then if condition else otherwise)()
        return
    branch = scf.IfOp(condition, has_else=True)
    for block, emit in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            emit()
            scf.YieldOp([])


def first(choices: Iterator[tuple[ir.Value | bool, Emitter]]) -> None:
    """Emit what belongs to the first condition that holds.

    A choice is taken from the iterator where all before it do not hold: its condition is computed there, and nothing
    behind one that is certain.
    """
    for condition, emit in choices:
        if condition is not False:
            either(condition, emit, lambda: first(choices))
            return


def chosen(condition: ir.Value, kinds: Sequence[ir.Type], then: Maker, otherwise: Maker) -> list[ir.Value]:
    """Values of these types that one of two makes."""
    branch = scf.IfOp(condition, list(kinds), has_else=True)
    for block, make in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            scf.YieldOp(make())
    return list(branch.results)


def changed(condition: ir.Value, values: Sequence[ir.Value], then: Maker) -> list[ir.Value]:
    """What is made of values where the condition holds, and the values themselves where it does not."""
    return chosen(condition, [value.type for value in values], then, lambda: values)


@contextmanager
def guard(condition: ir.Value | None) -> Iterator[None]:
    """Insert under a condition; without one, right where the insertion point is."""
    if condition is None:
        yield
        return
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp([])
    with ir.InsertionPoint(end):
        yield
