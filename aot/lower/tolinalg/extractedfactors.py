"""Factors of products that are extracted at places of loops, one of them divided by a number, become operands.

In: functions in linalg on tensors, after fusing. Out: the same, where a sum over loops whose body has a
``tensor.extract`` at such places has the tensor as an operand, with the places in its indexing map: grouped queries of
attention, as a generator writes them that indexes heads by hand. What is extracted of is as large as the loops are.

``tensor.extract %k[%b, %h / 4, %n, %d]``, of ``linalg.index``  becomes  an operand with
``(b, h, m, n, d) -> (b, h floordiv 4, n, d)``
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from aot import mlir
from aot.lower.analysis import literals, opwalk
from aot.lower.tolinalg import splitloops
from aot.lower.tolinalg.splitloops import GENERIC

_QUOTIENTS = frozenset({"arith.divui", "arith.divsi", "arith.floordivsi"})


def take(module: ir.Module) -> None:
    """Make all such factors of the module operands."""
    for op in opwalk.named(module, GENERIC):
        if "reduction" in str(op.attributes["iterator_types"]) and len(op.results) == 1:
            _take(op)


def _take(op: ir.Operation) -> None:
    body = op.regions[0].blocks[0]
    # What a branch extracts may be there in that case alone.
    for extract in [each for each in opwalk.named(op, "tensor.extract") if each.block == body]:
        source, *places = extract.operands
        made_by = mlir.owner(source)
        outside = made_by != body if isinstance(made_by, ir.Block) else made_by.block != body
        indices = [_index(each) for each in places]
        known = [each for each in indices if each is not None]
        loops = [loop for loop, _ in known]
        if not outside or len(known) < len(places) or len(set(loops)) < len(loops) or all(by == 1 for _, by in known):
            continue
        with ir.InsertionPoint(op), op.location:
            sliced = _as_large(op, source, known)
            if sliced is not None:
                op = _with_operand(op, extract, sliced, known)


def _index(value: ir.Value) -> tuple[int, int] | None:
    """The loop of which a place is the number, divided by a number."""
    op, by = mlir.owner(value), 1
    if isinstance(op, ir.Operation) and op.name in _QUOTIENTS:
        number = literals.whole(op.operands[1])
        op, by = mlir.owner(op.operands[0]), number or 0
    if by < 1 or isinstance(op, ir.Block) or op.name != "linalg.index":
        return None
    return int(ir.IntegerAttr(op.attributes["dim"]).value), by


def known_extent(op: ir.Operation, loop: int) -> int | None:
    """The extent of a loop, if the shape of an operand says it."""
    for value, axis in _whose(op, loop):
        extent = ir.RankedTensorType(value.type).shape[axis]
        if extent != ir.ShapedType.get_dynamic_size():
            return int(extent)
    return None


def _whose(op: ir.Operation, loop: int) -> list[tuple[ir.Value, int]]:
    """Operands and their dimensions that a loop runs along."""
    along = map(splitloops.loops_of, splitloops.maps_of(op))
    return [(value, loops.index(loop)) for loops, value in zip(along, op.operands, strict=True) if loop in loops]


def _as_large(op: ir.Operation, source: ir.Value, indices: Sequence[tuple[int, int]]) -> ir.Value | None:
    """What loops reach of a tensor; None where the extent of one that is divided is not known, or it reaches less."""
    kind, unknown = ir.RankedTensorType(source.type), ir.ShapedType.get_dynamic_size()
    sizes: list[ir.Value | int] = []
    for axis, (loop, by) in enumerate(indices):
        extent, whose = known_extent(op, loop), _whose(op, loop)
        if not whose or (by > 1 and (extent is None or -(-extent // by) != kind.shape[axis])):
            return None
        if by > 1:
            sizes.append(kind.shape[axis])
        elif extent is None:
            value, dimension = whose[0]
            sizes.append(tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), dimension).result).result)
        else:
            sizes.append(extent)
    if sizes == list(kind.shape):
        return source
    shape = [unknown if isinstance(size, ir.Value) else size for size in sizes]
    dynamic = [size for size in sizes if isinstance(size, ir.Value)]
    result = ir.RankedTensorType.get(shape, kind.element_type)
    offsets, steps = [0] * kind.rank, [1] * kind.rank
    return tensor.ExtractSliceOp(result, source, [], dynamic, [], offsets, shape, steps).result


def _with_operand(
    op: ir.Operation, extract: ir.Operation, factor: ir.Value, indices: Sequence[tuple[int, int]]
) -> ir.Operation:
    """The operation, with one more operand in place of what it extracts."""
    *inputs, out = op.operands
    *maps, last = splitloops.maps_of(op)
    dims = [(ir.AffineDimExpr.get(loop), by) for loop, by in indices]
    results = [dim if by == 1 else ir.AffineFloorDivExpr.get(dim, ir.AffineConstantExpr.get(by)) for dim, by in dims]
    maps += [ir.AffineMap.get(last.n_dims, 0, results), last]
    attributes = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    made = linalg.GenericOp([op.results[0].type], [*inputs, factor], [out], attributes, op.attributes["iterator_types"])
    body = op.regions[0].blocks[0]
    kinds = [ir.RankedTensorType(each.type).element_type for each in (*inputs, factor, out)]
    place = made.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    *mine, added, result = place.arguments
    for old, new in zip(body.arguments, (*mine, result), strict=True):
        old.replace_all_uses_with(new)
    extract.results[0].replace_all_uses_with(added)
    _erase(extract, body)
    for each in [inner.operation for inner in body.operations]:
        place.append(each)
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made.operation


def _erase(op: ir.Operation, body: ir.Block) -> None:
    """Erase an operation of a body, and what was made for it alone: a loop that is asked for could not be split."""
    makers = dict.fromkeys(mlir.owner(each) for each in op.operands)
    op.erase()
    for each in makers:
        if isinstance(each, ir.Block) or each.block != body:
            continue
        if not any(list(value.uses) for value in each.results):
            _erase(each, body)
