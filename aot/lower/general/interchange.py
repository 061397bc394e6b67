"""Parallel loops go outside, in the order of the output's dimensions; reductions run inside their threads.

In: linalg on buffers. Out: the same operations, with loops in that order.

A sum over rows, ``iterator_types = ["reduction", "parallel"]``, would become a host loop with one launch for each row.
With the loops exchanged it is one launch, whose threads each add up one column. A transpose whose loops follow its
input would write with a stride: neighbouring threads get neighbouring elements of the output.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.dialects import linalg

_GENERALIZE = "func.func(linalg-generalize-named-ops)"


def parallel_first(module: ir.Module) -> None:
    """Reorder the loops of all operations that need it; named ones become generic."""
    late = [op for op in _operations(module) if _order(op) is not None]
    if any(op.name != "linalg.generic" for op in late):
        mlir.run_passes(module, [_GENERALIZE], "generalising reductions")
        late = [op for op in _operations(module) if _order(op) is not None]
    for op in late:
        reorder(op, _order(op) or [])


def _operations(module: ir.Module) -> list[ir.Operation]:
    return [op for op in opwalk.on_host(module.operation) if op.name.startswith("linalg.")]


def _order(op: ir.Operation) -> list[int] | None:
    """Old numbers of the loops in the order wanted; None when they are in it."""
    maps = linalg.get_indexing_maps(op)
    if maps is None or not len(maps):
        return None
    # An output is indexed by all parallel loops and no others; its last dimension is the one that neighbours share.
    output = maps[len(maps) - 1].value
    places = [result.position for result in output.results if isinstance(result, ir.AffineDimExpr)]
    parallel = list(dict.fromkeys(places))
    order = [*parallel, *(loop for loop in range(output.n_dims) if loop not in parallel)]
    return order if order != list(range(output.n_dims)) else None


def reorder(op: ir.Operation, order: list[int]) -> None:
    """Renumber the loops of a ``linalg.generic``: what was loop ``order[i]`` is loop ``i``."""
    new = [order.index(loop) for loop in range(len(order))]
    renamed = ir.AffineMap.get(len(order), 0, [ir.AffineDimExpr.get(loop) for loop in new])
    maps = [
        ir.AffineMap.get(len(order), 0, [result.compose(renamed) for result in each.value.results])
        for each in op.attributes["indexing_maps"]
    ]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    types = list(op.attributes["iterator_types"])
    op.attributes["iterator_types"] = ir.ArrayAttr.get([types[loop] for loop in order])
    for inner in mlir.walk(op):
        if inner.name == "linalg.index":
            dim = inner.attributes["dim"]
            inner.attributes["dim"] = ir.IntegerAttr.get(dim.type, new[ir.IntegerAttr(dim).value])
