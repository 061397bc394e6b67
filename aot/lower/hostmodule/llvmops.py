"""The few LLVM-dialect operations that host code is completed with, at the current insertion point.

In: values and Python numbers. Out: values. Needs a context, a location and an insertion point in force.

>>> slot = load(pointer(), element(base, 3, pointer()))                 # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import llvm

from aot import mlir


def pointer() -> ir.Type:
    """``!llvm.ptr``."""
    return ir.Type.parse("!llvm.ptr")


def integer(bits: int) -> ir.Type:
    """A signless integer type."""
    return ir.IntegerType.get_signless(bits)


def constant(value: int, bits: int = 64) -> mlir.Value:
    """An integer constant."""
    return llvm.ConstantOp(integer(bits), ir.IntegerAttr.get(integer(bits), value)).result


def null() -> mlir.Value:
    """A null pointer."""
    return ir.Operation.create("llvm.mlir.zero", results=[pointer()]).results[0]


def alloca(type_: ir.Type, count: int = 1) -> mlir.Value:
    """Stack memory; use in the entry block only."""
    return llvm.AllocaOp(pointer(), constant(count), ir.TypeAttr.get(type_)).result


def element(base: mlir.Value, index: int, type_: ir.Type) -> mlir.Value:
    """Address of element ``index`` of an array of ``type_``."""
    where = ir.DenseI32ArrayAttr.get([index])
    flags = ir.IntegerAttr.get(integer(32), 0)
    return llvm.GEPOp(pointer(), base, [], where, ir.TypeAttr.get(type_), flags).result


def load(type_: ir.Type, address: mlir.Value) -> mlir.Value:
    """Read memory."""
    return llvm.LoadOp(type_, address).result


def store(value: mlir.Value, address: mlir.Value) -> None:
    """Write memory."""
    llvm.StoreOp(value, address)


def address_of(symbol: str) -> mlir.Value:
    """Address of a global."""
    return llvm.AddressOfOp(pointer(), ir.FlatSymbolRefAttr.get(symbol)).result


def call(symbol: str, operands: Sequence[mlir.Value], result: ir.Type | None = None) -> mlir.Value | None:
    """Call of a function of the module."""
    made = llvm.CallOp(result, list(operands), [], [], callee=ir.FlatSymbolRefAttr.get(symbol))
    return made.operation.results[0] if result is not None else None


def extract(value: mlir.Value, position: int, type_: ir.Type) -> mlir.Value:
    """Field of a struct value."""
    return llvm.ExtractValueOp(type_, value, ir.DenseI64ArrayAttr.get([position])).operation.results[0]


def function_type(result: str, operands: Sequence[str]) -> ir.TypeAttr:
    """``!llvm.func`` from spellings of types."""
    return ir.TypeAttr.parse(f"!llvm.func<{result} ({', '.join(operands)})>")


def declare(module: mlir.Module, symbol: str, type_: ir.TypeAttr) -> None:
    """Declare an external function at the end of the module, unless it is there."""
    body = module.operation.regions[0].blocks[0]
    if any(mlir.symbol_name(op) == symbol for op in body.operations):
        return
    with ir.InsertionPoint(body), ir.Location.unknown():
        llvm.LLVMFuncOp(symbol, type_)
