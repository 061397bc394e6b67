"""What tensor cores multiply: element types as they lie in memory, and how the source widens them.

In: a problem, or a factor. Out: a Kind; None where tensor cores compute something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot.lower.contract.instructions import Kind
from aot.lower.contract.problem import Factor, Problem

_KINDS = {
    ("f16", ("arith.extf",)): Kind("f16", 2, "f32"),
    ("bf16", ("arith.extf",)): Kind("bf16", 2, "f32"),
    ("i8", ("arith.extsi",)): Kind("s8", 1, "i32"),
    ("i8", ("arith.extui",)): Kind("u8", 1, "i32"),
    ("f8E4M3FN", ("arith.extf",)): Kind("e4m3", 1, "f32"),
    ("f8E5M2", ("arith.extf",)): Kind("e5m2", 1, "f32"),
}
"""Element type in memory, and how it is widened: exactly."""


HALF = Kind("f16", 2, "f32")
"""What small floats are widened to where tensor cores do not know them: exactly."""


def of(job: Problem) -> Kind | None:
    """What the factors of a problem are."""
    left, right = (of_factor(each) for each in job.factors)
    return left if left == right and left is not None and left.sums == str(job.accumulator) else None


def of_factor(factor: Factor) -> Kind | None:
    """What a factor is."""
    return of_elements(factor.element, factor.conversions)


def of_elements(element: ir.Type, conversions: Sequence[ir.Operation]) -> Kind | None:
    """What elements are that are converted so."""
    return _KINDS.get((str(element), tuple(each.name for each in conversions)))
