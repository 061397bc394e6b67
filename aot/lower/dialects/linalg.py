"""Operations of linalg, without the language in which Python defines further ones.

In: values. Out: operations, made by the classes that are generated from MLIR's definitions. ``mlir.dialects.linalg``
has these, too, and runs the definitions of all named operations in Python when it is imported, with NumPy and yaml: a
quarter of what a build imports for its jobs.

>>> fill(zero, empty).owner.name   # doctest: +SKIP
'linalg.fill'
"""

from __future__ import annotations

from mlir import ir
from mlir._mlir_libs._mlirDialectsLinalg import fill_builtin_region, get_indexing_maps
from mlir.dialects._linalg_ops_gen import CopyOp, FillOp, GenericOp, IndexOp, YieldOp

__all__ = ["GenericOp", "IndexOp", "YieldOp", "copy", "fill", "get_indexing_maps"]


def fill(number: ir.Value, into: ir.Value) -> ir.Value | None:
    """All elements of a tensor or memref become the number; of a tensor the new one is returned."""
    return _named(FillOp, number, into)


def copy(source: ir.Value, into: ir.Value) -> ir.Value | None:
    """The elements of one tensor or memref go into another of its shape; of a tensor the new one is returned."""
    return _named(CopyOp, source, into)


def _named(kind: type[ir.OpView], source: ir.Value, into: ir.Value) -> ir.Value | None:
    is_tensor = isinstance(into.type, ir.RankedTensorType)
    made = kind([into.type] if is_tensor else [], [source], [into])
    fill_builtin_region(made.operation)
    return made.result if is_tensor else None
