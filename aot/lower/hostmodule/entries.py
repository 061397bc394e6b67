"""Entry points: what the runtime calls for each public function of a source.

In: host code in the LLVM dialect and the functions' signatures. Out: the same module with one
``void aot_entry_<source>__<function>(void **slots)`` per function (slots: aot.h), which reads each argument
from its slot, calls the lowered function and stores the returned numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.lower.hostmodule import llvmops
from aot.model import ArrayType, Function, ScalarType

_WORD = 64


def named(functions: Sequence[Function], source: str) -> tuple[Function, ...]:
    """The functions with their entry symbols."""
    return tuple(replace(each, entry=f"aot_entry_{source}__{each.name}") for each in functions)


def lowered_name(function: Function, source: str) -> str:
    """Symbol of the function's own code."""
    return f"aot_{source}__{function.name}"


def add(module: mlir.Module, functions: Sequence[Function], source: str) -> None:
    """Append the entry points of all functions."""
    body = module.operation.regions[0].blocks[0]
    by_name = {mlir.symbol_name(op): op.operation for op in body.operations}
    for function in functions:
        _add(body, function, by_name[lowered_name(function, source)])


def _add(body: ir.Block, function: Function, target: mlir.Operation) -> None:
    void = llvmops.function_type("void", ["ptr"])
    with ir.InsertionPoint(body), target.location:
        entry = llvm.LLVMFuncOp(function.entry, void, visibility_=ir.IntegerAttr.get(llvmops.integer(64), HIDDEN))
        block = entry.operation.regions[0].blocks.append(llvmops.pointer())
    with ir.InsertionPoint(block), target.location:
        slots = block.arguments[0]
        types = iter(value.type for value in target.regions[0].blocks[0].arguments)
        arguments: list[mlir.Value] = []
        for number, argument in enumerate(function.args):
            slot = _slot(slots, number)
            if isinstance(argument.type, ScalarType):
                arguments.append(_load_number(next(types), slot))
            else:
                arguments += _descriptor(slot, argument.type, types)
        _store_results(function, slots, llvmops.call(mlir.symbol_name(target), arguments, _result_type(target)))
        llvm.ReturnOp()


HIDDEN = 1
"""LLVM's visibility."""


def _slot(slots: mlir.Value, number: int) -> mlir.Value:
    return llvmops.load(llvmops.pointer(), llvmops.element(slots, number, llvmops.pointer()))


def _load_number(kind: ir.Type, slot: mlir.Value) -> mlir.Value:
    """A number; integers of odd widths lie in whole bytes, of which only the lower bits count."""
    whole = _whole_bytes(kind)
    value = llvmops.load(whole, slot)
    return value if whole == kind else ir.Operation.create("llvm.trunc", results=[kind], operands=[value]).results[0]


def _as_stored(value: mlir.Value) -> mlir.Value:
    whole = _whole_bytes(value.type)
    if whole == value.type:
        return value
    # A bit is 0 or 1; wider integers are signed, as Python gets them.
    extend = "llvm.zext" if value.type.width == 1 else "llvm.sext"
    return ir.Operation.create(extend, results=[whole], operands=[value]).results[0]


def _whole_bytes(kind: ir.Type) -> ir.Type:
    """The integer type of 8, 16, 32 or 64 bits that holds an integer; other types as they are."""
    if not isinstance(kind, ir.IntegerType):
        return kind
    return llvmops.integer(next(bits for bits in (8, 16, 32, 64, kind.width) if bits >= kind.width))


def _descriptor(slot: mlir.Value, kind: ArrayType, types: ir.TypeIterator) -> list[mlir.Value]:
    """Fields of a memref descriptor: two pointers, offset, sizes, strides; all of eight bytes."""
    count = 3 + 2 * len(kind.shape)
    word = llvmops.integer(_WORD)
    return [llvmops.load(next(types), llvmops.element(slot, field, word)) for field in range(count)]


def _result_type(target: mlir.Operation) -> ir.Type | None:
    for op in mlir.walk(target):
        if op.name == "llvm.return" and op.parent.operation == target:
            return op.operands[0].type if len(op.operands) else None
    return None


def _store_results(function: Function, slots: mlir.Value, returned: mlir.Value | None) -> None:
    """Several numbers come back as one struct."""
    numbers = [n for n, result in enumerate(function.results) if isinstance(result.type, ScalarType)]
    if returned is None:
        return
    values = [returned]
    if len(numbers) > 1:
        fields = ir.Type(returned.type)
        values = [llvmops.extract(returned, place, kind) for place, kind in enumerate(_fields(fields))]
    for number, value in zip(numbers, values, strict=True):
        llvmops.store(_as_stored(value), _slot(slots, len(function.args) + number))


def _fields(struct: ir.Type) -> list[ir.Type]:
    return list(llvm.StructType(struct).body)
