"""Dimensions of extent 1 that reductions keep are left out: a result of rows has one index then, as rows do.

In: functions in linalg on tensors, after fusing. Out: the same, where what a reduction writes at index 0 of a dimension
has no such dimension. Front ends keep reduced dimensions (``keepdim=True``), to broadcast along them later: a reader's
map says ``(i, j) -> (i, 0)``, and that becomes ``(i, j) -> (i)``.

``generic maps [(i, j) -> (i, j), (i, j) -> (i, 0)] outs(%z : tensor<?x1xf32>)``  gets  ``outs(%z : tensor<?xf32>)``
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mlir import ir
from mlir.dialects import tensor

from aot import mlir
from aot.lower.dialects import linalg

_GENERIC, _MAPS = "linalg.generic", "indexing_maps"


def drop(module: ir.Module) -> None:
    """Drop them wherever all readers are generic operations."""
    for op in mlir.walk(module):
        if op.name == _GENERIC and any("reduction" in str(each) for each in op.attributes["iterator_types"]):
            for number in range(len(op.results)):
                _drop(op, number)


def _drop(op: ir.Operation, number: int) -> None:
    place, result = len(op.operands) - len(op.results) + number, op.results[number]
    kind = ir.RankedTensorType(result.type)
    indices = _maps(op)[place].results
    kept = [axis for axis in range(kind.rank) if kind.shape[axis] != 1 or not _is_constant(indices[axis])]
    readers: dict[ir.Operation, list[int]] = {}
    for use in result.uses:
        readers.setdefault(use.owner.operation, []).append(use.operand_number)
    if len(kept) in (0, kind.rank) or not all(_can_read(*each, kept) for each in readers.items()):
        return
    smaller = ir.RankedTensorType.get([kind.shape[axis] for axis in kept], kind.element_type)
    with ir.InsertionPoint(op), op.location:
        op.operands[place] = _without(op.operands[place], smaller, kept)
    result.set_type(smaller)
    for reader, operands in [(op, [place]), *readers.items()]:
        maps = [ir.AffineMapAttr.get(each) for each in _selected(reader, operands, kept)]
        reader.attributes[_MAPS] = ir.ArrayAttr.get(maps, op.context)


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in op.attributes[_MAPS]]


def _selected(reader: ir.Operation, operands: Collection[int], kept: Sequence[int]) -> list[ir.AffineMap]:
    """Its maps, those of some operands without the other dimensions."""
    return [
        ir.AffineMap.get(each.n_dims, 0, [each.results[axis] for axis in kept]) if number in operands else each
        for number, each in enumerate(_maps(reader))
    ]


def _can_read(reader: ir.Operation, operands: Collection[int], kept: Sequence[int]) -> bool:
    """Whether they are inputs of a generic operation, whose loops all run over something else, too."""
    if reader.name != _GENERIC or max(operands) >= len(reader.operands) - len(reader.results):
        return False
    maps = _selected(reader, operands, kept)
    named = {index.position for each in maps for index in map(_loop, each.results) if index is not None}
    return len(named) == int(maps[0].n_dims)


def _is_constant(index: ir.AffineExpr) -> bool:
    return isinstance(index, ir.AffineConstantExpr)


def _loop(index: ir.AffineExpr) -> ir.AffineDimExpr | None:
    return ir.AffineDimExpr(index) if isinstance(index, ir.AffineDimExpr) else None


def _without(init: ir.Value, smaller: ir.RankedTensorType, kept: Sequence[int]) -> ir.Value:
    """What the sum begins with, without the other dimensions; a fill of fresh memory is a fill of less of it."""
    made_by = mlir.owner(init)
    if not isinstance(made_by, ir.Block) and made_by.name == "tensor.empty":
        sizes = iter(made_by.operands)
        dynamic = ir.ShapedType.get_dynamic_size()
        extents = [next(sizes) if extent == dynamic else extent for extent in smaller.shape]
        return tensor.EmptyOp(extents, smaller.element_type).result
    if not isinstance(made_by, ir.Block) and made_by.name == "linalg.fill":
        number, target = made_by.operands
        return linalg.fill(number, _without(target, smaller, kept))
    # Dimensions before the first one that is kept go with it, others with the one before them.
    ends = [*kept[1:], ir.RankedTensorType(init.type).rank]
    groups = [list(range(0 if not place else kept[place], end)) for place, end in enumerate(ends)]
    return tensor.CollapseShapeOp(smaller, init, groups).result
