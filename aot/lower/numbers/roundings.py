"""Conversions of floats that ask for another rounding than to the nearest even number.

In: a module of any level. Out: LoweringError where there is one: neither upstream's GPU code nor its CPU code rounds
any other way, whatever ``arith.truncf`` says.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.errors import LoweringError

_MODE = "roundingmode"


def check(module: mlir.Module) -> None:
    """Refuse them."""
    faults = tuple(
        mlir.diagnostic_at(op, f"'{op.name}' {_mode(op).name}: only rounding to the nearest even number is possible")
        for op in mlir.walk(module)
        if _MODE in op.attributes and _mode(op) != arith.RoundingMode.to_nearest_even
    )
    if faults:
        raise LoweringError(f"{module.context.aot_path}: roundings that are not supported", diagnostics=faults)


def _mode(op: mlir.Operation) -> arith.RoundingMode:
    return arith.RoundingMode(ir.IntegerAttr(op.attributes[_MODE]).value)
