"""Scores that are products scaled by a positive number: the largest of them is the largest product, scaled.

In: what the source makes of a score. Out: the number, and an epilogue without it; 1 where there is none. The softmax
scales its exponents anyway, by a number that this one goes into.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.products.epilogue import Epilogue, Input, Result, Total


def without(epilogue: Epilogue) -> tuple[Epilogue, float]:
    """The epilogue without its scale, and that."""
    ((array, made),) = epilogue.stores
    scale = _scale(made)
    return (epilogue, 1.0) if scale is None else (Epilogue(epilogue.initial, ((array, Total()),)), scale)


def _scale(made: Input) -> float | None:
    """The number, if all that is made of a product is its multiple."""
    if not isinstance(made, Result):
        return None
    op = mlir.owner(made.step.yielded[made.number])
    if isinstance(op, ir.Block) or op.name not in ("arith.mulf", "arith.divf"):
        return None
    arguments = list(made.step.body.arguments)
    one, other = op.operands
    if op.name == "arith.mulf" and one not in arguments:
        one, other = other, one
    if one not in arguments or not isinstance(made.step.inputs[arguments.index(one)], Total):
        return None
    number = literals.real(other)
    if number is None or not 0 < number < float("inf"):
        return None
    return number if op.name == "arith.mulf" else 1 / number
