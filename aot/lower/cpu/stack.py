"""Stack memory of the source that must not lie on the stack.

In: functions on buffers. Out: the same, where ``memref.alloca`` is an allocation that ends with its block, so that
neither its size nor a loop around it overflows the stack. In a parallel loop, memory of known size stays on the stack
of the thread.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.analysis import views

_PARALLEL = frozenset({"scf.parallel", "scf.forall", "affine.parallel"})


def to_heap(module: ir.Module) -> None:
    """Rewrite all ``memref.alloca`` but those that deallocation has put there for its lists."""
    for op in [each for each in mlir.walk(module) if each.name == "memref.alloca"]:
        kind = ir.MemRefType(op.results[0].type)
        inside = any(each.name in _PARALLEL for each in mlir.parents(op))
        if views.HOST_MARK not in op.attributes and not (inside and kind.has_static_shape):
            _to_heap(op, kind)


def _to_heap(op: ir.Operation, kind: ir.MemRefType) -> None:
    end = list(op.block.operations)[-1].operation
    # What leaves its block lives until the call ends: the runtime frees it then.
    leaves = any(views.is_memref(value) and views.root(value) == op.results[0] for value in end.operands)
    sizes = list(op.operands)[: next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])))]
    with ir.InsertionPoint(op), op.location:
        buffer = memref.AllocOp(kind, sizes, []).result
    op.results[0].replace_all_uses_with(buffer)
    op.erase()
    if not leaves and not end.name.startswith("cf."):
        with ir.InsertionPoint(end), end.location:
            memref.DeallocOp(buffer)
