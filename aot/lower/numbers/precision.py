"""Where products of f32 numbers may be taken in tf32: on tensor cores, which read 10 bits of a number's fraction.

In: a module as it was read. Out: marks on the multiplications of linalg bodies, which survive what becomes of the
operations. ``aot.precision`` on an operation counts, else that of its function, of its module, else the source's.

``linalg.matmul {aot.precision = "tf32"} ins(%a, %b : tensor<...xf32>, ...)``: its ``arith.mulf`` is marked.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.errors import LoweringError

ATTRIBUTE = "aot.precision"
EXACT, TF32 = "f32", "tf32"
_MARK = "aot.tf32"


def mark(module: mlir.Module, default: str) -> None:
    """Mark the multiplications that may be rounded; LoweringError for a precision that there is not."""
    for op in mlir.walk(module):
        if op.name.startswith("linalg.") and len(op.regions) and _of(op, default) == TF32:
            for inner in mlir.walk(op):
                if inner.name == "arith.mulf" and isinstance(inner.results[0].type, ir.F32Type):
                    inner.attributes[_MARK] = ir.UnitAttr.get()


def is_tf32(body: ir.Block) -> bool:
    """Whether a multiplication of the body is marked."""
    return any(_MARK in each.operation.attributes for each in body.operations)


def forget(module: mlir.Module) -> None:
    """Take all marks off: what is left is computed exactly."""
    for op in mlir.walk(module):
        for name in (_MARK, ATTRIBUTE):
            if name in op.attributes:
                del op.attributes[name]


def _of(op: mlir.Operation, default: str) -> str:
    for each in (op, *mlir.parents(op)):
        if ATTRIBUTE in each.attributes:
            for problem in problems(each):  # of what passes of the source's own have made
                raise LoweringError("a precision is unknown", diagnostics=(mlir.diagnostic_at(each, problem),))
            return _word(each)
    return default


def problems(op: mlir.Operation) -> list[str]:
    """What is wrong with the attribute of an operation that may have it."""
    word = _word(op) if ATTRIBUTE in op.attributes else EXACT
    return [] if word in (EXACT, TF32) else [f"'{ATTRIBUTE}' is {word!r}: '{EXACT}' and '{TF32}' are known"]


def _word(op: mlir.Operation) -> str:
    value = op.attributes[ATTRIBUTE]
    return value.value if isinstance(value, ir.StringAttr) else str(value)
