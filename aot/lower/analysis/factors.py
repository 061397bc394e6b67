"""What a linalg body multiplies, when it is ``out + left * right``.

In: a body with three arguments. Out: the operations between each argument and its factor; None for any other body, such
as one with two results.

``(%l: f16, %r: f16, %o: f32): extf %l, extf %r, mulf, addf %o`` has one conversion on either side.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir

_PRODUCTS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
"""Sum -> product of the same kind."""


def of(body: ir.Block) -> tuple[tuple[ir.Operation, ...], tuple[ir.Operation, ...]] | None:
    """Conversions of both factors, when the body is ``out + left * right``."""
    left, right, out = body.arguments
    yielded = list(list(body.operations)[-1].operation.operands)
    if len(yielded) != 1:
        return None
    total = mlir.owner(yielded[0])
    if isinstance(total, ir.Block) or total.name not in _PRODUCTS or total.block != body:
        return None
    terms = [value for value in total.operands if value != out]
    if len(terms) != 1:
        return None
    product = mlir.owner(terms[0])
    if isinstance(product, ir.Block) or product.name != _PRODUCTS[total.name] or product.block != body:
        return None
    ways = [_conversions(value, (left, right)) for value in product.operands]
    found = dict(way for way in ways if way is not None)
    return (found[left], found[right]) if left in found and right in found else None


def _conversions(value: ir.Value, ends: Sequence[ir.Value]) -> tuple[ir.Value, tuple[ir.Operation, ...]] | None:
    """The element that a factor comes from, through operations of one operand."""
    path: list[ir.Operation] = []
    while value not in ends:
        op = mlir.owner(value)
        if isinstance(op, ir.Block) or len(op.operands) != 1 or len(op.regions) or not op.name.startswith("arith."):
            return None
        path.insert(0, op)
        value = op.operands[0]
    return value, tuple(path)
