"""Products that find the head of a factor by a division of the loop read heads that are repeated, instead.

In: functions in linalg on tensors, after fusing. Out: the same, where such a factor is broadcast and collapsed as front
ends write it; ``repeatedheads`` lets the product read it where it lies.

``maps […, (b, h, n, d) -> (b, h floordiv 4, n, d)] …, %k``  becomes  ``%r = collapse (broadcast %k)`` with four times
as many heads, and ``maps […, (b, h, n, d) -> (b, h, n, d)] …, %r``
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from aot.lower.analysis import opwalk
from aot.lower.tolinalg import extractedfactors, splitloops
from aot.lower.tolinalg.splitloops import GENERIC


def repeat(module: ir.Module) -> None:
    """Let all products of the module read repeated heads where they divide a loop by a number."""
    extractedfactors.take(module)
    for op in opwalk.named(module, GENERIC):
        if len(op.operands) - len(op.results) > 1 and "reduction" in str(op.attributes["iterator_types"]):
            for number in range(len(op.operands) - len(op.results)):
                _repeat(op, number)


def _repeat(op: ir.Operation, number: int) -> None:
    """One factor, if it is read so, and all heads are read as often."""
    maps = splitloops.maps_of(op)
    found = [(axis, *divided) for axis, each in enumerate(maps[number].results) if (divided := _divided(each))]
    if len(found) != 1:
        return
    ((axis, loop, by),) = found
    value = op.operands[number]
    heads = ir.RankedTensorType(value.type).shape[axis]
    if extractedfactors.known_extent(op, loop) != heads * by or heads < 0:
        return
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = _repeated(value, axis, by)
    indices = list(maps[number].results)
    indices[axis] = ir.AffineDimExpr.get(loop)
    maps[number] = ir.AffineMap.get(maps[number].n_dims, 0, indices)
    splitloops.set_maps(op, maps)


def _divided(index: ir.AffineExpr) -> tuple[int, int] | None:
    """The loop that an index divides, and by what."""
    if not isinstance(index, ir.AffineFloorDivExpr):
        return None
    loop, by = index.lhs, index.rhs
    if not isinstance(loop, ir.AffineDimExpr) or not isinstance(by, ir.AffineConstantExpr):
        return None
    return int(loop.position), int(by.value)


def _repeated(value: ir.Value, axis: int, times: int) -> ir.Value:
    """A tensor with each part along an axis so often, one after the other."""
    kind = ir.RankedTensorType(value.type)
    unknown, rank = ir.ShapedType.get_dynamic_size(), kind.rank
    sizes: list[ir.Value | int] = [
        tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), each).result).result if size == unknown else size
        for each, size in enumerate(kind.shape)
    ]
    sizes.insert(axis + 1, times)
    loops = [ir.AffineDimExpr.get(loop) for loop in range(rank + 1)]
    maps = [ir.AffineMap.get(rank + 1, 0, each) for each in ([*loops[: axis + 1], *loops[axis + 2 :]], loops)]
    attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    kinds = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * (rank + 1))
    empty = tensor.EmptyOp(sizes, kind.element_type).result
    made = linalg.GenericOp([empty.type], [value], [empty], attributes, kinds)
    block = made.regions[0].blocks.append(kind.element_type, kind.element_type, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])
    shape = [kind.shape[each] * times if each == axis else kind.shape[each] for each in range(rank)]
    groups = [[each + (each > axis)] if each != axis else [axis, axis + 1] for each in range(rank)]
    return tensor.CollapseShapeOp(ir.RankedTensorType.get(shape, kind.element_type), made.results[0], groups).result
