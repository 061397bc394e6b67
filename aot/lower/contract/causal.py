"""Scores of which a query sees those of keys up to its own place: known from the source's own operations.

In: what the source makes of a score. Out: whether it is ``key <= query ? something : -infinity``, and an epilogue that
makes the something only: a kernel leaves out the keys that no query of a block sees, and compares where some do.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower import literals
from aot.lower.contract.epilogue import Epilogue, Result, Step
from aot.lower.fast import reducers

_AT_MOST = {arith.CmpIPredicate.ule, arith.CmpIPredicate.sle}
_AT_LEAST = {arith.CmpIPredicate.uge, arith.CmpIPredicate.sge}
_LESS = {arith.CmpIPredicate.ult, arith.CmpIPredicate.slt}
_MORE = {arith.CmpIPredicate.ugt, arith.CmpIPredicate.sgt}


def visible(epilogue: Epilogue, loops: int) -> Epilogue | None:
    """The epilogue of scores that are seen; None where it is no such choice. ``loops``: those around the scores."""
    ((array, made),) = epilogue.stores
    if not isinstance(made, Result):
        return None
    chosen = mlir.owner(made.step.yielded[made.number])
    if isinstance(chosen, ir.Block) or chosen.name != "arith.select":
        return None
    condition, one, other = chosen.operands
    compared = _compared(condition, made.step, loops)
    seen = one if compared is True and _is_nothing(other) else other if compared is False and _is_nothing(one) else None
    if seen is None:
        return None
    step = replace(made.step, yielded=(seen,))
    return Epilogue(epilogue.initial, ((array, Result(step, 0)),))


def _compared(condition: ir.Value, step: Step, loops: int) -> bool | None:
    """True: the key's place is at most the query's; False: it is behind; None: something else."""
    op = mlir.owner(condition)
    if isinstance(op, ir.Block) or op.name != "arith.cmpi":
        return None
    predicate = arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)
    places = [_place(value, step) for value in op.operands]
    if places == [loops, loops + 1]:
        return True if predicate in _AT_LEAST else False if predicate in _LESS else None
    if places == [loops + 1, loops]:
        return True if predicate in _AT_MOST else False if predicate in _MORE else None
    return None


def _place(value: ir.Value, step: Step) -> int | None:
    """Which of the loops around, the queries' and the keys' a value is the index of; None where it may wrap."""
    loop = reducers.counted_loop(value)
    return None if loop is None else step.loops[loop]


def _is_nothing(value: ir.Value) -> bool:
    """Whether it is minus infinity, which has no weight."""
    return literals.real(value) == float("-inf")
