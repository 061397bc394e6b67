"""Masked vector operations without regions.

In: ``vector.mask``. Out: masked memory operations (by upstream's pass), and masked reductions as reductions of a
vector whose masked elements are neutral. Masks of reads and writes of whole tensors, which upstream forgets, are
selections.

``vector.mask %m { vector.reduction <add>, %v }``  becomes  ``vector.reduction <add>, select(%m, %v, 0)``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, vector

from aot import mlir
from aot.lower.analysis import neutral, opwalk

_OF_BOTH = frozenset({"add", "mul", "and", "or", "xor"})
"""Kinds of ``vector.reduction`` without a letter that says whether they are of floats."""


def lower(module: ir.Module) -> None:
    """Before anything is simplified: canonicalization can leave a mask with two operations in it."""
    names = mlir.op_names(module)
    if "vector.mask" in names:
        mlir.run_passes(module, ["func.func(lower-vector-mask)"], "lowering vector.mask")
        for op in mlir.walk(module):
            if op.name == "vector.mask":
                _unmask(op)
    if "vector.transfer_write" in names:
        for op in opwalk.named(module, "vector.transfer_write"):
            if op.results and _mask(op) is not None and _covers(op):
                op = _merged(op)
            if op.results:
                _keep_mask_of_read(op)


def _keep_mask_of_read(write: ir.Operation) -> None:
    """Of what is read from a tensor and written to one, canonicalization makes the tensor, and forgets the mask."""
    read = mlir.owner(write.operands[0])
    if not isinstance(read, ir.Operation) or read.name != "vector.transfer_read":
        return
    mask, value = _mask(read), read.results[0]
    if mask is not None and ir.VectorType(mask.type).shape == ir.VectorType(value.type).shape:
        padding = read.operands[sum(list(_counts(read))[:2])]
        with ir.InsertionPoint(write), write.location:
            write.operands[0] = arith.SelectOp(mask, value, vector.BroadcastOp(value.type, padding).result).result


def _merged(write: ir.Operation) -> ir.Operation:
    """A masked write of a whole tensor, which bufferization takes for one of all elements, becomes such a one."""
    value, target, *indices, mask = write.operands
    kept = {name: write.attributes[name] for name in ("permutation_map", "in_bounds")}
    reading, writing = (ir.DenseI32ArrayAttr.get([1, *counts, 0]) for counts in ((len(indices), 1), (1, len(indices))))
    kind = ir.VectorType(value.type)
    with ir.InsertionPoint(write), write.location:
        padding = arith.ConstantOp(kind.element_type, _neutral("add", kind)).result
        attributes = {**kept, "operandSegmentSizes": reading}
        before = ir.Operation.create("vector.transfer_read", [kind], [target, *indices, padding], attributes).results[0]
        merged = arith.SelectOp(mask, value, before).result
        attributes = {**kept, "operandSegmentSizes": writing}
        made = ir.Operation.create("vector.transfer_write", [target.type], [merged, target, *indices], attributes)
    write.results[0].replace_all_uses_with(made.results[0])
    write.erase()
    return made


def _covers(write: ir.Operation) -> bool:
    """Whether a write goes to a tensor that is as large as the vector, element by element."""
    kind, target = ir.VectorType(write.operands[0].type), ir.RankedTensorType(write.results[0].type)
    is_plain = ir.AffineMapAttr(write.attributes["permutation_map"]).value == ir.AffineMap.get_identity(target.rank)
    return is_plain and list(kind.shape) == list(target.shape)


def _mask(transfer: ir.Operation) -> ir.Value | None:
    """The last operand, if there is one."""
    return transfer.operands[len(transfer.operands) - 1] if list(_counts(transfer))[3] else None


def _counts(transfer: ir.Operation) -> ir.DenseI32ArrayAttr:
    return ir.DenseI32ArrayAttr(transfer.attributes["operandSegmentSizes"])


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
