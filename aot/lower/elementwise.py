"""Elementwise work that no pass turns into linalg.

``generate``. In: a tensor that gives type and extents of the result, and a function that builds one element from its
indices. Out: a ``linalg.generic`` without inputs, which fuses and bufferizes like any other.

``lower_foldable``. In: integers of a tensor of dynamic extents, compared or combined (``xori``) with themselves: MLIR
would fold that to a constant of such a type, and abort. Out: ``tensor.splat`` of the value.

``lower_bitcasts``. In: ``tensor.bitcast``, which has no bufferization. Out: ``arith.bitcast``, which is elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from aot import mlir


def generate(into: ir.Value, element: Callable[[Sequence[ir.Value]], ir.Value]) -> ir.Value:
    """A tensor like ``into``, written in its place, whose elements ``element`` computes from their indices."""
    kind = ir.RankedTensorType(into.type)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp(
        [kind], [], [into], ir.ArrayAttr.get([identity]), ir.ArrayAttr.get([parallel] * kind.rank)
    )
    body = generic.regions[0].blocks.append(kind.element_type)
    with ir.InsertionPoint(body):
        indices = [
            linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)).result
            for axis in range(kind.rank)
        ]
        linalg.YieldOp([element(indices)])
    return generic.results[0]


def lower_bitcasts(module: ir.Module) -> None:
    """Replace all ``tensor.bitcast`` between signless elements; ``arith`` knows no others."""
    for op in [each for each in mlir.walk(module) if each.name == "tensor.bitcast"]:
        elements = [ir.ShapedType(value.type).element_type for value in (op.operands[0], op.results[0])]
        if all(not isinstance(each, ir.IntegerType) or each.is_signless for each in elements):
            with ir.InsertionPoint(op), op.location:
                cast = arith.BitcastOp(op.results[0].type, op.operands[0])
            op.results[0].replace_all_uses_with(cast.result)
            op.erase()


def lower_foldable(module: ir.Module) -> None:
    """Replace comparisons and exclusive ors of a tensor with itself by tensors of their one value."""
    for op in [each for each in mlir.walk(module) if _folds(each)]:
        kind, given = ir.RankedTensorType(op.results[0].type), op.operands[0]
        with ir.InsertionPoint(op), op.location:
            dynamic = [extent(given, axis) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
            one = ir.IntegerAttr.get(kind.element_type, int(op.name == _COMPARE and _holds_of_equals(op)))
            alike = tensor.SplatOp(kind, arith.ConstantOp(kind.element_type, one), dynamic)
        op.results[0].replace_all_uses_with(alike.result)
        op.erase()


_COMPARE = "arith.cmpi"


def _folds(op: ir.Operation) -> bool:
    if op.name not in (_COMPARE, "arith.xori") or op.operands[0] != op.operands[1]:
        return False
    kind = op.operands[0].type
    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def _holds_of_equals(comparison: ir.Operation) -> bool:
    predicates = arith.CmpIPredicate
    either = {predicates.eq, predicates.sle, predicates.sge, predicates.ule, predicates.uge}
    return ir.IntegerAttr(comparison.attributes["predicate"]).value in {int(each) for each in either}


def empty(kind: ir.RankedTensorType, dynamic: Sequence[ir.Value]) -> ir.Value:
    """A tensor without contents, of static type ``kind``; ``dynamic`` are the extents that the type leaves open."""
    values = iter(dynamic)
    sizes = [next(values) if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in range(kind.rank)]
    return tensor.EmptyOp(sizes, kind.element_type).result


def extent(value: ir.Value, axis: int) -> ir.Value:
    """An extent of a tensor."""
    return tensor.DimOp(value, index(axis)).result


def index(value: int) -> ir.Value:
    """An index constant."""
    return arith.ConstantOp(ir.IndexType.get(), value).result
