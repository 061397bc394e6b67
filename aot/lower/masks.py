"""Masked vector operations without regions.

In: ``vector.mask``. Out: masked memory operations (by upstream's pass), and masked reductions as reductions of a
vector whose masked elements are neutral.

``vector.mask %m { vector.reduction <add>, %v }``  becomes  ``vector.reduction <add>, select(%m, %v, 0)``.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith

from aot import mlir

_ZERO = frozenset({"add", "or", "xor", "maxui"})
_LOWEST = frozenset({"maxnumf", "maximumf", "maxsi"})
_HIGHEST = frozenset({"minnumf", "minimumf", "minsi"})
_ALL_ONES = frozenset({"and", "minui"})


def lower(module: ir.Module) -> None:
    """Before anything is simplified: canonicalization can leave a mask with two operations in it."""
    if "vector.mask" not in mlir.op_names(module):
        return
    mlir.run_passes(module, ["func.func(lower-vector-mask)"], "lowering vector.mask")
    for op in mlir.walk(module):
        if op.name == "vector.mask":
            _unmask(op)


def _unmask(op: ir.Operation) -> None:
    inner = [each.operation for each in op.regions[0].blocks[0].operations]
    if len(inner) != 2 or inner[0].name != "vector.reduction" or len(op.operands) != 1:
        return
    reduction = inner[0]
    values = reduction.operands[0]
    with ir.InsertionPoint(op), op.location:
        neutral = _neutral(str(reduction.attributes["kind"]).split("<")[1].rstrip(">"), values.type)
        fill = arith.ConstantOp(values.type, ir.DenseElementsAttr.get_splat(values.type, neutral)).result
        chosen = arith.SelectOp(op.operands[0], values, fill).result
    reduction.move_before(op)
    reduction.operands[0] = chosen
    op.results[0].replace_all_uses_with(reduction.results[0])
    op.erase()


def _neutral(kind: str, vector: ir.Type) -> ir.Attribute:
    """The element that leaves a reduction of this kind as it is."""
    element = ir.VectorType(vector).element_type
    if isinstance(element, ir.IntegerType | ir.IndexType):
        bits = element.width if isinstance(element, ir.IntegerType) else 64
        highest = (1 << (bits - 1)) - 1
        values = {_ZERO: 0, _LOWEST: -highest - 1, _HIGHEST: highest, _ALL_ONES: -1}
        return ir.IntegerAttr.get(element, next((value for kinds, value in values.items() if kind in kinds), 1))
    floats = {_ZERO: -0.0, _LOWEST: -math.inf, _HIGHEST: math.inf}
    return ir.FloatAttr.get(element, next((value for kinds, value in floats.items() if kind in kinds), 1.0))
