"""Attention whose results are divided by the totals of weights, and not the weights, as fused kernels are written.

In: the weighted sum, with the operations behind it, and the memory of the totals. Out: the operand that is them, if the
first of these operations divides by it and nothing else is done with sums and totals; what is left of that operation in
kernels, which divide anyway.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.attention import onlinesoftmax
from aot.lower.contract.products.epilogue import Array, Epilogue, Input, Result, Total
from aot.lower.contract.products.matching import Match


def divisor(output: Match, total: ir.Value) -> int | None:
    """The number of the operand of the first operation on the sums that is the totals of their rows' weights."""
    if not output.tails or any(store.maker is None for store in output.stores):
        return None
    first, *others = output.tails
    product, sums = output.contraction, output.contraction.out.value
    if any(operand.value in (sums, total) for tail in others for operand in tail.operation.operands):
        return None
    values = [operand.value for operand in first.operation.operands]
    if values.count(total) != 1 or values.count(sums) != 1:
        return None
    number = values.index(total)
    if first.indices(number) != product.left.loops[:-1] or product.left.loops[-1:] != product.k:
        return None
    one, other = (first.operation.body.arguments[values.index(each)] for each in (sums, total))
    return number if _divides(one, other) else None


def undivided(done: Epilogue, number: int) -> Epilogue:
    """What becomes of sums that are divided already: the first operation on them divides by 1."""

    def visit(node: Input) -> Input:
        if not isinstance(node, Result):
            return node
        inputs = [None if each is None else visit(each) for each in node.step.inputs]
        if any(isinstance(each, Total) for each in inputs):
            inputs[number] = Array(onlinesoftmax.number(1.0))
        return Result(replace(node.step, inputs=tuple(inputs)), node.number)

    return replace(done, stores=tuple((array, visit(node)) for array, node in done.stores))


def is_inverse(value: ir.Value, of: ir.Value) -> bool:
    """Whether it is ``1 / of``."""
    op = mlir.owner(value)
    divides = not isinstance(op, ir.Block) and op.name == "arith.divf"
    return divides and literals.real(op.operands[0]) == 1.0 and rounded(op.operands[1]) == of


def rounded(value: ir.Value) -> ir.Value:
    """What a value is rounded from, or the value itself."""
    op = mlir.owner(value)
    return value if isinstance(op, ir.Block) or op.name != "arith.truncf" else op.operands[0]


def _divides(one: ir.Value, other: ir.Value) -> bool:
    """Whether one is in ``one / other`` alone, or in ``one * (1 / other)``, and the other one only there."""
    made, inverse = _user(one), _user(other)
    if made is None or inverse is None:
        return False
    if made.name == "arith.divf":
        return made == inverse and list(made.operands) == [one, other]
    if made.name != "arith.mulf" or _user(inverse.results[0]) != made:
        return False
    return any(each == one and is_inverse(of, other) for each, of in itertools.permutations(made.operands))


def _user(value: ir.Value) -> ir.Operation | None:
    """The only operation that uses a value, once."""
    uses = [use.owner.operation for use in value.uses]
    return uses[0] if len(uses) == 1 else None
