"""Extents of tensors and buffers as polynomials in the extents of a function's arguments.

In: a value of host code. Out: Polynomial: for each product of extents its factor; None where an extent depends on data.

>>> extent(value_of("%empty = tensor.empty(%m, %n)"), 0)                          # doctest: +SKIP
{((0, 0),): 1}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.source.signature import outs_operand
from aot.model import Term

Dims = tuple[tuple[int, int], ...]
Polynomial = dict[Dims, int]

_SAME = frozenset({"tensor.cast", "memref.cast", "bufferization.materialize_in_destination", "linalg.fill"})
_INTO = {"tensor.insert_slice": 1, "tensor.insert": 1, "bufferization.materialize_in_destination": 1}
"""Operations whose result has the shape of this operand."""


def constant(value: int) -> Polynomial:
    """A number."""
    return {(): value}


def added(parts: Iterable[Polynomial | None]) -> Polynomial | None:
    """The sum; unknown when a part is."""
    total: Polynomial = {}
    for part in parts:
        if part is None:
            return None
        for dims, factor in part.items():
            total[dims] = total.get(dims, 0) + factor
    return total


def multiplied(parts: Iterable[Polynomial | None]) -> Polynomial | None:
    """The product; unknown when a part is."""

    def twice(one: Polynomial | None, other: Polynomial | None) -> Polynomial | None:
        if one is None or other is None:
            return None
        return added({tuple(sorted(a + b)): x * y} for a, x in one.items() for b, y in other.items())

    one: Polynomial | None = constant(1)
    return reduce(twice, parts, one)


def terms(polynomial: Polynomial | None) -> tuple[Term, ...] | None:
    """For the signature: sorted, without terms that are zero."""
    if polynomial is None:
        return None
    return tuple(Term(factor, dims) for dims, factor in sorted(polynomial.items()) if factor)


def size(value: ir.Value) -> Polynomial | None:
    """Number of elements."""
    return multiplied(extent(value, axis) for axis in range(value.type.rank))


def extent(value: ir.Value, axis: int) -> Polynomial | None:
    """Extent of a tensor or buffer along an axis."""
    if not value.type.is_dynamic_dim(axis):
        return constant(int(value.type.get_dim_size(axis)))
    op = mlir.owner(value)
    if not isinstance(op, ir.Operation):
        return _of_argument(ir.BlockArgument(value), axis)
    if op.name in _INTO:
        return extent(op.operands[_INTO[op.name]], axis)
    if op.name in ("tensor.empty", "memref.alloc"):
        before = sum(value.type.is_dynamic_dim(each) for each in range(axis))
        return number(op.operands[before])
    if op.name.startswith("linalg."):
        return extent(outs_operand(op, ir.OpResult(value).result_number), axis)
    return extent(op.operands[0], axis) if op.name in _SAME else None


def number(value: ir.Value) -> Polynomial | None:
    """An index that is computed from extents, by numbers that do not wrap."""
    op = mlir.owner(value)
    if not isinstance(op, ir.Operation) or literals.may_wrap(value.type):
        return None
    if op.name == "arith.constant":
        return constant(int(ir.IntegerAttr(op.attributes["value"]).value))
    if op.name in ("tensor.dim", "memref.dim"):
        axis = number(op.operands[1])
        return None if axis is None or set(axis) != {()} else extent(op.operands[0], axis[()])
    combine = _COMBINED.get(op.name)
    return combine(number(each) for each in op.operands) if combine else None


_COMBINED: dict[str, Callable[[Iterable[Polynomial | None]], Polynomial | None]] = {
    "arith.addi": added,
    "arith.muli": multiplied,
    "arith.index_cast": added,
}


def _of_argument(argument: ir.BlockArgument, axis: int) -> Polynomial | None:
    """An argument of the function; what a loop carries has the shape it began with."""
    parent = argument.owner.owner.operation
    if parent.name == "func.func":
        return {((argument.arg_number, axis),): 1}
    if parent.name == "scf.for" and argument.arg_number:
        return extent(parent.operands[2 + argument.arg_number], axis)
    return None
