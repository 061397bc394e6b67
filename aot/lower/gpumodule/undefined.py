"""Calls in device code of functions that no device has.

In: a module before its kernels are outlined and renamed. Out: nothing, or a LoweringError that shows each
call. ptxas would find them too, but knows neither the source's line nor the name that the user gave.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import symbols
from aot.lower.source import sourcelevel

LINKED = ("__nv_", "llvm.")
"""Starts of names that the linker or the back end knows: libdevice, intrinsics."""


def check(module: mlir.Module) -> None:
    """LoweringError for kernels that call functions without a body."""
    ops = mlir.walk(module)
    empty = {
        mlir.symbol_name(op)
        for op in ops
        if op.name == "func.func" and not sourcelevel.has_body(op) and not mlir.symbol_name(op).startswith(LINKED)
    }
    calls = [
        (op, symbols.path(op.attributes["callee"])[-1])
        for op in ops
        if op.name == "func.call" and mlir.inside_kernel(op)
    ]
    found = tuple(
        mlir.diagnostic_at(op, f"a kernel calls '{name}', which is declared but has no body")
        for op, name in calls
        if name in empty
    )
    if found:
        raise LoweringError(
            f"{module.context.aot_path}: kernels call functions that do not exist on the device",
            hint="define the function in the source; functions of the host cannot run on the GPU",
            diagnostics=found,
        )
