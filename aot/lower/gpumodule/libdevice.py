"""Functions that are linked to device code, libdevice's and intrinsics, are declared in the LLVM dialect.

In: a module with a gpu.module. Out: the same module. Upstream takes a function without a body for one behind a C
interface, and calls that: ``_mlir_ciface___nv_sinf``, which is nowhere.

``func.func private @__nv_sinf(f32) -> f32``  becomes  ``llvm.func @__nv_sinf(f32) -> f32``
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.lower.analysis import opwalk, symbols
from aot.lower.gpumodule.undefined import LINKED
from aot.lower.hostmodule import llvmops
from aot.lower.source import sourcelevel

_NUMBERS = (ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type)


def declare(module: mlir.Module) -> None:
    """Rewrite the declarations of gpu.modules, and their calls."""
    for op in opwalk.named(module, "func.func"):
        name = mlir.symbol_name(op)
        if name.startswith(LINKED) and not sourcelevel.has_body(op) and mlir.inside_kernel(op):
            kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            if len(kind.results) < 2 and all(isinstance(each, _NUMBERS) for each in [*kind.inputs, *kind.results]):
                _declare(op, name, kind)


def _declare(op: mlir.Operation, name: str, kind: ir.FunctionType) -> None:
    scope = op.parent.operation
    with ir.InsertionPoint(op), op.location:
        result = str(kind.results[0]) if kind.results else "void"
        llvm.LLVMFuncOp(name, llvmops.function_type(result, [str(each) for each in kind.inputs]))
    op.erase()
    for call in opwalk.named(scope, "func.call"):
        if symbols.path(call.attributes["callee"])[-1] == name:
            with ir.InsertionPoint(call), call.location:
                value = llvmops.call(name, list(call.operands), kind.results[0] if kind.results else None)
            if value is not None:
                call.results[0].replace_all_uses_with(value)
            call.erase()
