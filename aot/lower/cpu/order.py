"""The shape of loops over arrays: few and long ones, with neighbouring elements in neighbouring iterations.

In: ``linalg.generic`` on buffers. Out: the same, where elementwise operations on whole arrays have one loop, and all
others have that loop innermost along which memory is contiguous.

``outs(%c : memref<?x?xf32>)`` with the identity map becomes ``outs(memref.collapse_shape %c [[0, 1]])``, with one
index; a sum over rows, ``["reduction", "parallel"]`` along ``d1``, keeps its loop along the columns innermost.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.analysis import views
from aot.lower.dialects import linalg
from aot.lower.fast.regions import reducers
from aot.lower.general import interchange

_GENERALIZE = "func.func(linalg-generalize-named-ops)"


def arrange(module: ir.Module) -> None:
    """Collapse and reorder loops of all linalg operations; named ones become generic."""
    mlir.run_passes(module, [_GENERALIZE], "generalising linalg operations")
    operations = [op for op in mlir.walk(module) if op.name == "linalg.generic"]
    for op in _flat(operations):
        _collapse(op)
    for op in [op for op in mlir.walk(module) if op.name == "linalg.generic"]:
        order = _order(op)
        if order != list(range(len(order))):
            interchange.reorder(op, order)


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [each.value for each in linalg.get_indexing_maps(op) or ()]


def _is_reduction(op: ir.Operation) -> list[bool]:
    return ["reduction" in str(each) for each in op.attributes["iterator_types"]]


def _flat(operations: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Operations to collapse: not those that share a buffer of their own with one that cannot be.

    Such an operation will be fused with the other one, by rows.
    """
    flat = [op for op in operations if _collapsible(op)]
    while True:
        rest = {views.root(value) for op in operations if op not in flat for value in op.operands if _ranked(value)}
        kept = [op for op in flat if not any(_own(value) and views.root(value) in rest for value in op.operands)]
        if len(kept) == len(flat):
            return [op for op in flat if len(_is_reduction(op)) > 1]
        flat = kept


def _ranked(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType) and value.type.rank > 0


def _own(value: ir.Value) -> bool:
    return views.is_memref(value) and views.root_name(value) in ("memref.alloc", "memref.alloca")


def _collapsible(op: ir.Operation) -> bool:
    """All loops are of one kind, and every array is indexed by all of them in order, or by none."""
    kinds = _is_reduction(op)
    if len(set(kinds)) > 1 or any(inner.name == "linalg.index" for inner in mlir.walk(op)):
        return False
    identity = ir.AffineMap.get_identity(len(kinds))
    for value, each in zip(op.operands, _maps(op), strict=True):
        if len(each.results) and (each != identity or not _contiguous(value)):
            return False
    return True


def _contiguous(value: ir.Value) -> bool:
    kind = ir.MemRefType(value.type)
    return bool(kind == ir.MemRefType.get(kind.shape, kind.element_type))


def _collapse(op: ir.Operation) -> None:
    count = len(_is_reduction(op))
    index = ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n) for n in range(count)])
    dynamic = ir.ShapedType.get_dynamic_size()
    with ir.InsertionPoint(op), op.location:
        for number, value in enumerate(op.operands):
            if not _ranked(value):
                continue
            kind = ir.MemRefType(value.type)
            extent = 1
            for each in kind.shape:
                extent = dynamic if dynamic in (extent, each) else extent * each
            flat = ir.MemRefType.get([extent], kind.element_type)
            op.operands[number] = memref.CollapseShapeOp(flat, value, ir.ArrayAttr.get([index])).result
    maps = [ir.AffineMap.get(1, 0, [ir.AffineDimExpr.get(0)] if len(each.results) else []) for each in _maps(op)]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    op.attributes["iterator_types"] = ir.ArrayAttr.get([op.attributes["iterator_types"][0]])


def _order(op: ir.Operation) -> list[int]:
    """Loops, outermost first: parallel ones as the output has them, reductions, the contiguous one.

    Reductions stay in their order where that matters.
    """
    maps, reductions = _maps(op), _is_reduction(op)
    output = maps[-1]
    places = [each.position for each in output.results if isinstance(each, ir.AffineDimExpr)]
    parallel = [loop for loop in dict.fromkeys(places) if not reductions[loop]]
    parallel += [loop for loop, reduces in enumerate(reductions) if not reduces and loop not in parallel]
    reduced = [loop for loop, reduces in enumerate(reductions) if reduces]
    order = [*parallel, *reduced]
    if not reduced:
        return order
    inner = order if len(reduced) == 1 or reducers.is_free(op) else [*parallel, reduced[-1]]
    best = max(reversed(inner), key=lambda loop: _contiguity(loop, maps))
    return [*(loop for loop in order if loop != best), best]


def _contiguity(loop: int, maps: Sequence[ir.AffineMap]) -> int:
    """How good a loop is as the innermost one: arrays read along it, less those read across it."""
    score = 0
    for each in maps:
        results = list(each.results)
        inside = [_uses(result, loop) for result in results]
        if any(inside[:-1]):
            score -= 2
        elif inside and inside[-1]:
            score += 1
    return score


def _uses(expression: ir.AffineExpr, loop: int) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return bool(expression.position == loop)
    if isinstance(expression, ir.AffineBinaryExpr):
        return _uses(expression.lhs, loop) or _uses(expression.rhs, loop)
    return False
