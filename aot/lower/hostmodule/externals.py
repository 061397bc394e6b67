"""What compiled host code may take from outside: the runtime, the C math library, and a few functions of libc.

In: host code in the LLVM dialect. Out: nothing, or an error naming each function that nobody provides, with its
place: never an undefined reference when the package is linked or loaded.
"""

from __future__ import annotations

import re

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.source import sourcelevel


def _names(start: str, *ends: str) -> set[str]:
    return {start + end for group in ends for end in group.split()}


_ELEMENTS = "F16 BF16 F32 F64 I8 I16 I32 I64 Ind C32 C64"

RUNTIME = frozenset(
    _names("aot_rt_", "launch free result_extent shared_limit serves assert refuse parallel multiprocessors")
    | _names("aot_rt_tensor_", "axis walk pixels map")
    | _names("aot_rt_load_", "i8 i16 i32 i64")
    | _names("_mlir_ciface_aot_rt_", "alloc result")
    | _names("_mlir_memref_to_llvm_", "alloc aligned_alloc free")
    | _names("mgpuStream", "Create Destroy Synchronize WaitEvent")
    | _names("mgpuEvent", "Create Destroy Synchronize Record")
    | _names("mgpuMem", "Alloc Free cpy set16 set32 HostRegisterMemRef HostUnregisterMemRef")
    | _names("mgpu", "SetDefaultDevice TensorMapEncodeTiledMemref LaunchKernel LaunchClusterKernel")
    | _names("mgpuModule", "Load LoadJIT Unload GetFunction")
    | _names("mlirAsyncRuntimeCreate", "Token Value Group")
    | _names("mlirAsyncRuntimeEmplace", "Token Value")
    | _names("mlirAsyncRuntimeSet", "TokenError ValueError")
    | _names("mlirAsyncRuntimeIs", "TokenError ValueError GroupError")
    | _names("mlirAsyncRuntimeAwait", "Token Value AllInGroup TokenAndExecute ValueAndExecute AllInGroupAndExecute")
    | _names("mlirAsyncRuntime", "AddRef DropRef AddTokenToGroup Execute GetValueStorage")
    | _names("printMemref", _ELEMENTS)
    | _names("_mlir_ciface_printMemref", _ELEMENTS)
    | _names("_mlir_ciface_printMemrefShape", _ELEMENTS)
    | _names("print", "I64 U64 F16 BF16 F32 F64 String CString Open Close Comma Newline Flops")
    | _names("", "rtclock _mlir_ciface_rtclock nanoTime _mlir_ciface_nanoTime memrefCopy")
)
"""Functions in templates/runtime that compiled host code may call."""

_MATH = frozenset(
    {
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "floor",
        "fma",
        "fmax",
        "fmaximum",
        "fmin",
        "fminimum",
        "fmod",
        "hypot",
        "ldexp",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "nearbyint",
        "pow",
        "remainder",
        "rint",
        "round",
        "roundeven",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "tgamma",
        "trunc",
    }
)
"""Of the C math library; each with its ``f`` form."""
_COMPLEX = re.compile(r"c(abs|arg|acos|acosh|asin|asinh|atan|atanh|cos|cosh|exp|log|pow|sin|sinh|sqrt|tan|tanh)f?")
_LIBC = frozenset({"memcpy", "memmove", "memset", "memcmp"})


def drop_unused(module: mlir.Module) -> None:
    """Erase declarations that nothing refers to: sources declare more than they use."""
    used = {name for op in mlir.walk(module) for name in _references(op)}
    for op in [each.operation for each in module.operation.regions[0].blocks[0].operations]:
        if op.name == "llvm.func" and not sourcelevel.has_body(op) and mlir.symbol_name(op) not in used:
            op.erase()


def check(module: mlir.Module) -> None:
    """LoweringError for declarations of functions that will not be there."""
    unknown = [
        op.operation
        for op in module.operation.regions[0].blocks[0].operations
        if op.operation.name == "llvm.func"
        and not sourcelevel.has_body(op.operation)
        and not is_provided(mlir.symbol_name(op.operation))
    ]
    if not unknown:
        return
    names = ", ".join(f"'{mlir.symbol_name(op)}'" for op in unknown)
    raise LoweringError(
        f"{module.context.aot_path}: host code calls functions that nothing provides: {names}",
        hint="define them in the source; of outside functions, only the runtime's (printMemrefF32, rtclock, ...)"
        " and the C math library's can be called",
        diagnostics=tuple(
            mlir.diagnostic_at(op, f"function '{mlir.symbol_name(op)}' is declared here and defined nowhere")
            for op in unknown
        ),
    )


def is_provided(name: str) -> bool:
    """Whether a generated package, or the C library under it, has the function."""
    if name in RUNTIME or name in _LIBC or _COMPLEX.fullmatch(name):
        return True
    return name in _MATH or (name.endswith("f") and name[:-1] in _MATH)


def _references(op: mlir.Operation) -> list[str]:
    return [
        each.value
        for name in op.attributes
        if name != "sym_name" and isinstance(each := mlir.attribute(op, name), ir.FlatSymbolRefAttr)
    ]
