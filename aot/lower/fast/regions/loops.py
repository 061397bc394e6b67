"""Loops in the order that the classes of regions expect.

In: a ``linalg.generic`` on buffers. Out: the same operation with its loops renumbered.

Parallel loops are those of the result, in its order. Reduced loops come last when memory runs along one of them, so
that threads of a row share its neighbouring elements; else first, so that neighbouring threads have neighbouring
columns: ``(a, b, c) -> (a, c)`` has the loops ``b, a, c`` then, rows ``b`` and columns ``a, c``.
"""

from __future__ import annotations

from mlir import ir

from aot.lower.dialects import linalg
from aot.lower.general import interchange


def normalise(op: ir.Operation) -> None:
    """Renumber the loops, unless no operand has all of them, or results disagree on their order."""
    order = _order(op)
    if order is not None and order != list(range(len(order))):
        interchange.reorder(op, order)


def _order(op: ir.Operation) -> list[int] | None:
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or []]
    if op.name != "linalg.generic" or len(maps) != len(op.operands):
        return None
    inputs = next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])))
    kept = {tuple(_loops(each)) for each in maps[inputs:]}
    if len(kept) != 1:
        return None
    results = list(kept.pop())
    count = maps[0].n_dims
    reduced = [loop for loop in range(count) if "reduction" in str(op.attributes["iterator_types"][loop])]
    if sorted([*results, *reduced]) != list(range(count)):
        return None
    whole = next((_loops(each) for each in maps if sorted(_loops(each)) == list(range(count))), None)
    if whole is None:
        return None
    rows_first = bool(reduced) and whole[-1] not in reduced
    return [*reduced, *results] if rows_first else [*results, *reduced]


def _loops(indexing: ir.AffineMap) -> list[int]:
    return [each.position for each in indexing.results if isinstance(each, ir.AffineDimExpr)]
