"""Rows of a softmax that have nothing but minus infinity: zeros, where ``aot.toml`` wants them.

In: the operations that ``linalg.softmax`` was decomposed into. Out: their bodies changed. Attention recognises changed
bodies by ``base_of`` and ``quotient_of``.

``exp(x - most)`` becomes ``exp(x - (most == -inf ? 0 : most))``, ``e / sum`` becomes ``sum == 0 ? sum : e / sum``.
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals


def to_zeros(made: Collection[mlir.Operation]) -> None:
    """Change the bodies of these operations."""
    for op in made:
        if op.name == "linalg.generic":
            for inner in [each.operation for each in op.regions[0].blocks[0].operations]:
                with ir.InsertionPoint(inner), inner.location:
                    _change(inner)


def _change(op: mlir.Operation) -> None:
    if op.name == "arith.subf":
        most = op.operands[1]
        op.operands[1] = arith.SelectOp(_equals(most, float("-inf")), _number(most, 0.0), most).result
    elif op.name == "arith.divf":
        total = op.operands[1]
        quotient = arith.DivFOp(*op.operands).result
        chosen = arith.SelectOp(_equals(total, 0.0), total, quotient).result
        op.results[0].replace_all_uses_with(chosen)
        op.erase()


def _number(like: mlir.Value, value: float) -> mlir.Value:
    return arith.ConstantOp(like.type, value).result


def _equals(value: mlir.Value, number: float) -> mlir.Value:
    return arith.CmpFOp(arith.CmpFPredicate.OEQ, value, _number(value, number)).result


def base_of(value: mlir.Value) -> mlir.Value:
    """What ``most`` is, if a value is what was made of it; else the value itself."""
    chosen = _chosen(value, float("-inf"))
    if chosen is None:
        return value
    compared, one, other = chosen
    return other if compared == other and literals.real(one) == 0.0 else value


def quotient_of(value: mlir.Value) -> mlir.Value:
    """The quotient, if a value is what was made of one; else the value itself."""
    chosen = _chosen(value, 0.0)
    if chosen is None:
        return value
    compared, one, other = chosen
    made = mlir.owner(other)
    divides = not isinstance(made, ir.Block) and made.name == "arith.divf" and made.operands[1] == compared == one
    return other if divides else value


def _chosen(value: mlir.Value, number: float) -> tuple[mlir.Value, mlir.Value, mlir.Value] | None:
    """The values of ``x == number ? one : other``."""
    op = mlir.owner(value)
    if isinstance(op, ir.Block) or op.name != "arith.select":
        return None
    condition, one, other = op.operands
    compared = mlir.owner(condition)
    if isinstance(compared, ir.Block) or compared.name != "arith.cmpf":
        return None
    is_equal = ir.IntegerAttr(compared.attributes["predicate"]).value == int(arith.CmpFPredicate.OEQ)
    return (compared.operands[0], one, other) if is_equal and literals.real(compared.operands[1]) == number else None
