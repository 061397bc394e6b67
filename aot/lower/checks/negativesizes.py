"""Constant sizes, offsets of slices and paddings below zero.

In: a module of tensor-level functions. Out: LoweringError where there is one: passes that come later would make types
of them, and abort.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import literals
from aot.lower.checks.slicecheck import mixed

_SIZES_FROM = {
    "tensor.empty": 0,
    "tensor.generate": 0,
    "tensor.splat": 1,
    "tensor.expand_shape": 1,
    "memref.expand_shape": 1,
    "memref.realloc": 1,
}
"""Where the sizes begin among the operands; they are the last ones."""
_GROUPS = {
    "memref.alloc": {0: "size"},
    "memref.alloca": {0: "size"},
    "bufferization.alloc_tensor": {0: "size"},
    "tensor.extract_slice": {1: "offset", 2: "size"},
    "memref.subview": {1: "offset", 2: "size"},
    "memref.reinterpret_cast": {2: "size"},
    "tensor.insert_slice": {2: "offset", 3: "size"},
    "tensor.parallel_insert_slice": {2: "offset", 3: "size"},
}
"""Which of the groups of operands are what."""
_PADDINGS = ("low", "high")


def check(module: ir.Module) -> None:
    """Refuse them."""
    ops = mlir.walk(module)
    problems = [
        mlir.diagnostic_at(op, f"'{op.name}': {what} {number} is negative")
        for op in ops
        for what, number in dict.fromkeys(_numbers(op))
        if number < 0
    ]
    if problems:
        padded = any(each.message.startswith("'tensor.pad'") for each in problems)
        hint = "tensor.extract_slice takes elements away" if padded else ""
        raise LoweringError(f"{module.context.aot_path}: numbers below zero", hint=hint, diagnostics=tuple(problems))


def _numbers(op: ir.Operation) -> Iterator[tuple[str, int]]:
    """What the operation has as constants, and what they are."""
    for what, value in _parts(op):
        number = value if isinstance(value, int) else literals.whole(value)
        if number is not None:
            yield what, number


def _parts(op: ir.Operation) -> Iterator[tuple[str, ir.Value | int]]:
    operands = list(op.operands)
    if op.name in _SIZES_FROM:
        yield from (("size", value) for value in operands[_SIZES_FROM[op.name] :])
    elif op.name in _GROUPS:
        counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        for group, what in _GROUPS[op.name].items():
            before = sum(counts[:group])
            yield from ((what, value) for value in operands[before : before + counts[group]])
    elif op.name == "tensor.pad":
        values = operands[1:]
        for what in _PADDINGS:
            amounts = mixed(ir.DenseI64ArrayAttr(op.attributes[f"static_{what}"]), values)
            values = values[sum(not isinstance(each, int) for each in amounts) :]
            yield from ((what, each) for each in amounts)
