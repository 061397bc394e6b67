"""Affine loops that carry tensors become scf's, which bufferization knows.

In: functions on tensors, before any pass. Out: the same. Other affine loops stay: passes find out which of them are
parallel.

``%r = affine.for %i = 0 to %n iter_args(%a = %x) -> tensor<?xf32>``  becomes  ``%r = scf.for …``
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import affine, scf

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.tolinalg import elementwise


def lower(module: mlir.Module) -> None:
    """Rewrite the loops of a module, inner ones first."""
    for op in opwalk.named(module, "affine.for"):
        if any(isinstance(value.type, ir.RankedTensorType) for value in op.results):
            with ir.InsertionPoint(op), op.location:
                made = _loop(op)
            for old, new in zip(op.results, made.results, strict=True):
                old.replace_all_uses_with(new)
            op.erase()


def _loop(op: mlir.Operation) -> mlir.Operation:
    low, high, _ = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    operands = list(op.operands)
    first = _bound(op, "lowerBoundMap", operands[:low], affine.AffineMaxOp)
    end = _bound(op, "upperBoundMap", operands[low : low + high], affine.AffineMinOp)
    step = elementwise.index(ir.IntegerAttr(op.attributes["step"]).value)
    made = scf.ForOp(first, end, step, operands[low + high :])
    _move(op.regions[0].blocks[0], made.body)
    return made.operation


def _bound(op: mlir.Operation, name: str, operands: Sequence[ir.Value], of_several: type) -> ir.Value:
    numbers = ir.AffineMapAttr(op.attributes[name]).value
    if len(numbers.results) == 1:
        return affine.AffineApplyOp(numbers, operands).result
    return of_several(numbers, operands).result


def _move(body: ir.Block, place: ir.Block) -> None:
    for old, new in zip(body.arguments, place.arguments, strict=True):
        old.replace_all_uses_with(new)
    *ops, end = [op.operation for op in body.operations]
    for op in ops:
        place.append(op)
    with ir.InsertionPoint(place), end.location:
        scf.YieldOp(list(end.operands))
    end.erase()
