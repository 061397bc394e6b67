"""Asynchronous copies of our own kernels, on targets that have none.

In: a module with kernels, for targets that have no ``cp.async``. Out: the same with plain copies, and nothing that
waits for them. A user's kernel stays as it is: he may know better than to run it there.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm

from aot import mlir
from aot.lower.launches.tiling import SCHEDULE
from aot.targets.arch import Target

_FIRST = (8, 0)
"""Compute capability that has them."""
_COPY = "nvvm.cp.async.shared.global"
_WAITS = frozenset({"nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group", "nvvm.cp.async.wait.all"})


def lacks(target: Target) -> bool:
    """Whether a target has none."""
    return target.capability < _FIRST


def plain(module: mlir.Module) -> None:
    """Rewrite the kernels that a schedule made."""
    for op in mlir.walk(module):
        if (op.name == _COPY or op.name in _WAITS) and _is_ours(op):
            with ir.InsertionPoint(op), op.location:
                if op.name == _COPY:
                    _copy(op)
            op.erase()


def _is_ours(op: mlir.Operation) -> bool:
    return any(SCHEDULE in each.attributes for each in mlir.parents(op))


def _copy(op: mlir.Operation) -> None:
    size = ir.IntegerAttr(op.attributes["size"]).value
    word = ir.IntegerType.get_signless(32)
    kind = ir.VectorType.get([size // 4], word) if size > 4 else word
    value = llvm.LoadOp(kind, op.operands[1], alignment=size).res
    llvm.StoreOp(value, op.operands[0], alignment=size)
