"""What tensor cores multiply: element types as they lie in memory, and how the source widens them.

In: a problem, or a contraction. Out: a Kind; None where tensor cores would compute something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.problem import Problem

_KINDS = {
    ("f16", ("arith.extf",)): Kind("f16", 2, "f32"),
    ("bf16", ("arith.extf",)): Kind("bf16", 2, "f32"),
    ("i8", ("arith.extsi",)): Kind("s8", 1, "i32"),
    ("i8", ("arith.extui",)): Kind("u8", 1, "i32"),
    ("f8E4M3FN", ("arith.extf",)): Kind("e4m3", 1, "f32"),
    ("f8E5M2", ("arith.extf",)): Kind("e5m2", 1, "f32"),
}
"""Element type in memory, and how it is widened: exactly."""


_TF32 = Kind("tf32", 4, "f32")
HALF = Kind("f16", 2, "f32")
"""What small floats are widened to where tensor cores do not know them: exactly."""


def of(job: Problem) -> Kind | None:
    """What the factors of a problem are."""
    sides = [(each.element, each.conversions) for each in job.factors]
    return _of(sides, job.accumulator, tf32=job.tf32)


def of_contraction(contraction: Contraction) -> Kind | None:
    """What the factors of a contraction are."""
    operands = (contraction.left, contraction.right, contraction.out)
    left, right, out = (ir.MemRefType(each.value.type).element_type for each in operands)
    return _of(list(zip((left, right), contraction.conversions, strict=True)), out, tf32=contraction.tf32)


def _of(sides: Sequence[tuple[ir.Type, Sequence[ir.Operation]]], sums: ir.Type, *, tf32: bool) -> Kind | None:
    left, right = (_KINDS.get((str(element), tuple(op.name for op in ops))) for element, ops in sides)
    if tf32 and all(isinstance(element, ir.F32Type) and not ops for element, ops in sides):
        left = right = _TF32
    if left is None or right is None or {left.sums, right.sums} != {str(sums)}:
        return None
    if left != right:
        # Bytes may differ in what they mean; nothing else may.
        return replace(left, other=right.name) if left.bytes == right.bytes == 1 else None
    return left
