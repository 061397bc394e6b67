"""Masked vector operations without regions.

In: ``vector.mask``. Out: masked memory operations (by upstream's pass), and masked reductions as reductions of a
vector whose masked elements are neutral.

``vector.mask %m { vector.reduction <add>, %v }``  becomes  ``vector.reduction <add>, select(%m, %v, 0)``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower import neutral

_OF_BOTH = frozenset({"add", "mul", "and", "or", "xor"})
"""Kinds of ``vector.reduction`` without a letter that says whether they are of floats."""


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
        nothing = _neutral(str(reduction.attributes["kind"]).split("<")[1].rstrip(">"), values.type)
        fill = arith.ConstantOp(values.type, ir.DenseElementsAttr.get_splat(values.type, nothing)).result
        chosen = arith.SelectOp(op.operands[0], values, fill).result
    reduction.move_before(op)
    reduction.operands[0] = chosen
    op.results[0].replace_all_uses_with(reduction.results[0])
    op.erase()


def _neutral(kind: str, vector: ir.Type) -> ir.Attribute:
    """The element that leaves a reduction of this kind as it is."""
    element = ir.VectorType(vector).element_type
    letter = "f" if isinstance(element, ir.FloatType) else "i"
    return neutral.of(f"arith.{kind}{letter if kind in _OF_BOTH else ''}", element)
