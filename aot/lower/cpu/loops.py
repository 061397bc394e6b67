"""Linalg on buffers becomes parallel and sequential loops for the CPU.

In: functions on buffers. Out: the same with ``scf.parallel`` for what is parallel and ``scf.for`` for what is not,
ordered, cut and fused so that memory is read along its rows and once.

>>> emit(module, functions, variant)                                             # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from aot import mlir
from aot.lower.cpu import extrema, gemm, order, reduce, rows, strips
from aot.lower.general import accumulate, fusion
from aot.lower.general.accumulate import USER_LOOP
from aot.lower.gpumodule import forward
from aot.model import Function
from aot.targets.cpuvariant import Variant

_FROM_LINALG = ("func.func(scf-forall-to-parallel)", "func.func(convert-linalg-to-parallel-loops)")
_TO_PARALLEL = ("func.func(affine-parallelize)", "lower-affine", "canonicalize", "cse")


def emit(module: ir.Module, functions: Sequence[Function], variant: Variant) -> None:
    """Make the loops."""
    gemm.lower(module, variant)
    accumulate.mark_user_loops(module, present=True)
    order.arrange(module)
    mlir.run_passes(module, _FROM_LINALG, "making loops of linalg")
    strips.columns_outside(module)
    accumulate.carry(module)
    own = {op for op in mlir.walk(module) if USER_LOOP in op.attributes}
    reduce.free_order(module, own)
    extrema.to_integers(module)
    strips.split_reductions(module, own)
    accumulate.mark_user_loops(module, present=False)
    mlir.run_passes(module, _TO_PARALLEL, "making loops parallel")
    fusion.fuse(module, functions)
    forward.stores_to_loads(module)
    strips.tiles(module)
    mlir.run_passes(module, ["canonicalize", "cse"], "cleaning up loops")
    rows.fuse(module, functions)
    mlir.run_passes(module, ["canonicalize", "cse"], "cleaning up loops")
