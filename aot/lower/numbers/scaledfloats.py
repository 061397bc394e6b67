"""Conversions of floats that are scaled by a power of two: ``arith.scaling_extf`` and ``scaling_truncf`` (MX formats).

In: a module, of any level. Out: the same, where they are conversions and a product, or a quotient, as upstream expands
them; here before elements of few bits are stored as bytes.

``arith.scaling_extf %x, %s : f8E4M3FN, f8E8M0FNU to f32``  becomes  ``arith.mulf`` of ``arith.extf`` of both.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis.elements import element_type

_WIDEN, _NARROW = "arith.scaling_extf", "arith.scaling_truncf"
_FAST = "fastmath"


def lower(module: mlir.Module) -> None:
    """Rewrite all of them."""
    for op in mlir.walk(module):
        if op.name in (_WIDEN, _NARROW):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_expanded(op))
            op.erase()


def _expanded(op: ir.Operation) -> ir.Value:
    value, scale = op.operands
    result, fast = op.results[0].type, op.attributes.get(_FAST, None)
    if not isinstance(element_type(scale.type), ir.Float8E8M0FNUType):
        # Of wider floats the exponent is the scale.
        scale = arith.TruncFOp(_like(scale.type, ir.Float8E8M0FNUType.get()), scale).result
    if op.name == _WIDEN:
        factors = (arith.ExtFOp(result, each, fastmath=fast).result for each in (value, scale))
        return arith.MulFOp(*factors, fastmath=fast).result
    quotient = arith.DivFOp(value, arith.ExtFOp(value.type, scale, fastmath=fast).result, fastmath=fast).result
    rounding = op.attributes.get("roundingmode", None)
    return arith.TruncFOp(result, quotient, roundingmode=rounding, fastmath=fast).result


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(kind.shape, element)
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element
