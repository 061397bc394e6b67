"""Factors of products that a transpose or a broadcast has made are read where they lie.

In: functions in linalg on tensors, before anything is fused. Out: the same, where a product takes the operand of the
transpose and has the permutation in its indexing maps. Kernels of products read any layout; the transpose would be a
copy of all of it at every call. Front ends write ``x @ w.T`` so, and repeat weights for each matrix of a batch.

``transpose %w [1, 0] -> %t; matmul %x, %t``  becomes  ``matmul indexing_maps = […, (m, n, k) -> (n, k), …] %x, %w``
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir
from aot.lower.analysis import factors
from aot.lower.dialects import linalg

_WITH_MAPS = frozenset({"linalg.matmul", "linalg.generic", "linalg.contract"})
"""Operations that keep their name with other maps; so does ``linalg.batch_matmul``, while its batch is outermost."""
_MAPS = "indexing_maps"


def fold(module: ir.Module) -> None:
    """Let all products of the module read what transposes would copy for them."""
    for op in mlir.walk(module):
        if _is_product(op):
            _fold(op)


def _is_product(op: ir.Operation) -> bool:
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results) != 1 or not len(op.regions):
        return False
    body = op.regions[0].blocks[0]
    return len(list(body.arguments)) == 3 and factors.of(body) is not None


def _fold(op: ir.Operation) -> None:
    found = linalg.get_indexing_maps(op)
    if found is None:
        return
    maps = [ir.AffineMapAttr(each).value for each in found]
    if not all(isinstance(index, ir.AffineDimExpr) for each in maps for index in each.results):
        return
    sources: dict[int, ir.Value] = {}
    for number in (0, 1):
        while (copied := _copied(sources.get(number, op.operands[number]))) is not None:
            source, axes = copied
            turned = ir.AffineMap.get(maps[number].n_dims, 0, [maps[number].results[axis] for axis in axes])
            if not _is_one(turned, maps[1 - number], maps[2]):
                break
            sources[number], maps[number] = source, turned
    if not sources:
        return
    if not _keeps_its_name(op, maps):
        op = _generic(op)
    op.attributes[_MAPS] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps], op.context)
    for number, value in sources.items():
        op.operands[number] = value


def _is_one(factor: ir.AffineMap, other: ir.AffineMap, result: ir.AffineMap) -> bool:
    """Whether it is a product still: each loop of the result is a factor's, and all others are those of both."""
    one, two, out = map(_loops, (factor, other, result))
    return out <= one | two and set(range(factor.n_dims)) - out <= one & two


def _loops(each: ir.AffineMap) -> set[int]:
    return {int(result.position) for result in map(ir.AffineDimExpr, each.results)}


def _keeps_its_name(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> bool:
    repeated = any(len(each.results) < len(maps[2].results) for each in maps)
    outermost = not repeated and all(ir.AffineDimExpr(each.results[0]).position == 0 for each in maps)
    return not repeated and (op.name in _WITH_MAPS or (op.name == "linalg.batch_matmul" and outermost))


def _copied(value: ir.Value) -> tuple[ir.Value, list[int]] | None:
    """What is transposed or repeated, and for each of its indices which one of the copy's it is."""
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Block) or not isinstance(value.type, ir.RankedTensorType):
        return None
    if made_by.name == "linalg.transpose":
        permutation = [int(each) for each in ir.DenseI64ArrayAttr(made_by.attributes["permutation"])]
        return made_by.operands[0], [permutation.index(axis) for axis in range(len(permutation))]
    if made_by.name == "linalg.broadcast":
        added = [int(each) for each in ir.DenseI64ArrayAttr(made_by.attributes["dimensions"])]
        return made_by.operands[0], [axis for axis in range(value.type.rank) if axis not in added]
    if made_by.name != "linalg.generic" or len(made_by.operands) != 2 or not _copies(made_by.regions[0].blocks[0]):
        return None
    source, target = (ir.AffineMapAttr(each).value for each in made_by.attributes[_MAPS])
    if not (source.is_projected_permutation and target.is_permutation):
        return None
    loops = [ir.AffineDimExpr(each).position for each in target.results]
    return made_by.operands[0], [loops.index(ir.AffineDimExpr(each).position) for each in source.results]


def _copies(body: ir.Block) -> bool:
    ops = list(body.operations)
    return len(ops) == 1 and ops[0].operation.operands[0] == body.arguments[0]


def _generic(op: ir.Operation) -> ir.Operation:
    """A named operation as a generic one."""
    maps = ir.ArrayAttr.get(list(linalg.get_indexing_maps(op)), op.context)
    body = op.regions[0].blocks[0]
    first = maps[0].value
    summed = set(range(first.n_dims)) - {ir.AffineDimExpr(each).position for each in maps[2].value.results}
    kinds = ["reduction" if loop in summed else "parallel" for loop in range(first.n_dims)]
    *inputs, output = op.operands
    with ir.InsertionPoint(op), op.location:
        iterators = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
        made = linalg.GenericOp([op.results[0].type], inputs, [output], maps, iterators).operation
    body.append_to(made.regions[0])
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return made
