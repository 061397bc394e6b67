"""Constant sizes below zero.

In: a module of tensor-level functions. Out: LoweringError where there is one: passes that come later would make types
of them, and abort.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower import literals

_SIZES_FROM = {
    "tensor.empty": 0,
    "tensor.generate": 0,
    "tensor.splat": 1,
    "tensor.expand_shape": 1,
    "memref.expand_shape": 1,
    "memref.realloc": 1,
}
"""Where the sizes begin among the operands; they are the last ones."""
_SIZES_IN = {
    "memref.alloc": 0,
    "memref.alloca": 0,
    "bufferization.alloc_tensor": 0,
    "tensor.extract_slice": 2,
    "memref.subview": 2,
    "memref.reinterpret_cast": 2,
    "tensor.insert_slice": 3,
    "tensor.parallel_insert_slice": 3,
}
"""Which of the groups of operands are sizes."""


def check(module: ir.Module) -> None:
    """Refuse them."""
    problems = [
        mlir.diagnostic_at(op, f"'{op.name}': size {size} is negative")
        for op in mlir.walk(module)
        for size in {literals.whole(each) for each in _sizes(op)}
        if size is not None and size < 0
    ]
    if problems:
        raise LoweringError(f"{module.context.aot_path}: sizes below zero", diagnostics=tuple(problems))


def _sizes(op: ir.Operation) -> list[ir.Value]:
    """The operands that are sizes of what the operation makes."""
    if op.name in _SIZES_FROM:
        return list(op.operands)[_SIZES_FROM[op.name] :]
    if op.name not in _SIZES_IN:
        return []
    counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    before = sum(counts[: _SIZES_IN[op.name]])
    return list(op.operands)[before : before + counts[_SIZES_IN[op.name]]]
