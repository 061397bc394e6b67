"""Steps of loops that only a call knows are checked by host code: a loop whose step is 0 does not end.

In: host functions on buffers, before deallocation. Out: the same, with ``cf.assert`` in front of such loops.

``scf.for %i = %a to %b step %s`` gets an assertion that ``%s`` is above 0: "the step of a loop (0) is not above 0". A
loop in loops is checked before them, for all iterations, as slices are: see ``slicecheck``. Where the step is not known
there, it is checked in front of the loop itself, but only in code that runs on a processor: on a GPU the loops around
would be no kernel, and a number that lies in its memory would have to be waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals, opwalk
from aot.lower.checks import asserts, looprange
from aot.lower.checks.looprange import value_of
from aot.lower.general.mappedloop import FORALL, Bound, bounds_of

_TEXT = "the step of a loop ({}) is not above 0"


def insert(functions: Iterable[ir.Operation], *, everywhere: bool) -> None:
    """Put assertions in front of the loops of host code; ``everywhere``: also where that costs a kernel, or a wait."""
    for function in functions:
        for op in opwalk.on_host(function):
            for step in _steps(op):
                known = literals.whole(step) if isinstance(step, ir.Value) else step
                if known is None or known <= 0:
                    _check(op, step, everywhere=everywhere)


def _steps(op: ir.Operation) -> Iterator[Bound]:
    if op.name == "scf.for":
        yield op.operands[2]
    elif op.name == "scf.parallel":
        count = len(op.regions[0].blocks[0].arguments)
        yield from list(op.operands)[2 * count : 3 * count]
    elif op.name == FORALL:
        yield from (step for _, _, step in bounds_of(op))


def _check(op: ir.Operation, step: Bound, *, everywhere: bool) -> None:
    once = all(parent.name in looprange.ONCE for parent in mlir.parents(op))
    nest = None if once else looprange.around(op)
    if nest is not None:
        with ir.InsertionPoint(nest.outermost), op.location:
            found = nest.range(step)
            if found is not None:
                least = _as_index(found.least, op)
                asserts.check(nest.unless_empty(_is_above_zero(least)), _TEXT, least)
                return
    if everywhere or (once and (isinstance(step, int) or looprange.is_at_hand(step))):
        with ir.InsertionPoint(op), op.location:
            number = _as_index(value_of(step), op)
            asserts.check(_is_above_zero(number), _TEXT, number)


def _as_index(step: ir.Value, loop: ir.Operation) -> ir.Value:
    """The number that it is to the loop."""
    index = ir.IndexType.get()
    cast = arith.IndexCastUIOp if looprange.UNSIGNED in loop.attributes else arith.IndexCastOp
    return step if step.type == index else cast(index, step).result


def _is_above_zero(number: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.sgt, number, value_of(0)).result
