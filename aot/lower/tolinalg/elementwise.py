"""Elementwise work that no pass turns into linalg.

``generate``. In: a tensor that gives type and extents of the result, and a function that builds one element from its
indices. Out: a ``linalg.generic`` without inputs, which fuses and bufferizes like any other.

``lower_foldable``. In: comparisons and exclusive ors of integer tensors of dynamic extents. Out: ``linalg.generic``.
MLIR would fold those whose operands are, or become, the same to a constant of such a type, and abort.

``lower_bitcasts``. In: ``tensor.bitcast``, which has no bufferization. Out: ``arith.bitcast``, which is elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, tensor

from aot import mlir
from aot.lower.dialects import linalg


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
    """Replace comparisons and exclusive ors of integer tensors of dynamic extents."""
    for op in [each for each in mlir.walk(module) if each.name in _FOLDABLE]:
        kind = op.results[0].type
        if isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_each_element(op, kind))
            op.erase()


_FOLDABLE = ("arith.cmpi", "arith.xori")


def _each_element(op: ir.Operation, kind: ir.RankedTensorType) -> ir.Value:
    """What an elementwise operation computes, element by element."""
    given = list(op.operands)
    into = empty(kind, [extent(given[0], axis) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)])
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))] * (len(given) + 1)
    parallel = [ir.Attribute.parse("#linalg.iterator_type<parallel>")] * kind.rank
    generic = linalg.GenericOp([kind], given, [into], ir.ArrayAttr.get(maps), ir.ArrayAttr.get(parallel))
    elements = [ir.ShapedType(value.type).element_type for value in (*given, into)]
    body = generic.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(body):
        attributes = {name: op.attributes[name] for name in op.attributes}
        done = ir.Operation.create(op.name, elements[-1:], list(body.arguments)[:-1], attributes)
        linalg.YieldOp(list(done.results))
    return generic.results[0]


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
