"""Vector operations become ones that LLVM has.

In: a module with a gpu.module, or functions of host code. Out: the same module, in which contractions, masks, gathers,
transposes, scans and reductions over several dimensions are written in one-dimensional vectors, and, in kernels, loads
and stores of several dimensions in transfers (which a later pass unrolls).
"""

from __future__ import annotations

from functools import partial

from mlir import ir
from mlir.dialects import arith
from mlir.dialects.transform import interpreter

from aot import mlir
from aot.errors import LoweringError

# Upstream has these rewrites as passes of func.func only, if at all, and gpu.func is none; a script reaches both.
_SCRIPT = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @lower(%code: !transform.any_op) {
    transform.apply_patterns to %code {
      transform.apply_patterns.vector.lower_masked_transfers
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_transpose
      transform.apply_patterns.vector.lower_gather
      transform.apply_patterns.vector.lower_scan
      transform.apply_patterns.vector.lower_masks
    } : !transform.any_op
    transform.yield
  }
}
"""
_FLAT = frozenset({"vector.load", "vector.store"})
_LEFT = frozenset({"vector.multi_reduction", "vector.scan"})
"""What stays in host code when all else has become LLVM's."""


def lower(module: mlir.Module) -> None:
    """Rewrite the vector operations of all kernels."""
    for op in mlir.walk(module):
        if op.name in _FLAT and mlir.inside_kernel(op):
            _as_transfer(op)
    _flatten(module, "gpu.module", "vector operations of kernels")


def lower_host(module: mlir.Module) -> None:
    """Rewrite the vector operations of functions, where there are some that no conversion to LLVM knows."""
    if _LEFT & mlir.op_names(module):
        _flatten(module, "func.func", "vector operations of host code")


def _flatten(module: mlir.Module, scope: str, what: str) -> None:
    mlir.mark(module.context, what)
    script = ir.Module.parse(_SCRIPT, context=module.context)
    sequence = script.body.operations[0].operation
    for op in module.body.operations:
        if op.operation.name == scope:
            run = partial(interpreter.apply_named_sequence, op.operation, sequence, script.operation)
            found = mlir.failure(module.context, run)
            if found is not None:
                raise LoweringError(f"{module.context.aot_path}: cannot lower the {what}", diagnostics=found)


def _as_transfer(op: mlir.Operation) -> None:
    """A load or store of more than one dimension as a transfer within bounds."""
    is_load = op.name == "vector.load"
    vector = ir.VectorType(op.results[0].type if is_load else op.operands[0].type)
    memory = op.operands[0 if is_load else 1]
    indices = list(op.operands)[1 if is_load else 2 :]
    if vector.rank < 2 or ir.MemRefType(memory.type).element_type != vector.element_type:
        return
    attributes = {
        "permutation_map": ir.AffineMapAttr.get(ir.AffineMap.get_minor_identity(len(indices), vector.rank)),
        "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(True)] * vector.rank),
    }
    with ir.InsertionPoint(op), op.location:
        if is_load:
            attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, len(indices), 1, 0])
            zero = arith.ConstantOp(vector.element_type, _zero(vector.element_type)).result
            made = ir.Operation.create(
                "vector.transfer_read", results=[vector], operands=[memory, *indices, zero], attributes=attributes
            )
            op.results[0].replace_all_uses_with(made.results[0])
        else:
            attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, 1, len(indices), 0])
            ir.Operation.create(
                "vector.transfer_write", operands=[op.operands[0], memory, *indices], attributes=attributes
            )
    op.erase()


def _zero(kind: ir.Type) -> ir.Attribute:
    is_float = isinstance(kind, ir.FloatType)
    return ir.FloatAttr.get(kind, 0.0) if is_float else ir.IntegerAttr.get(kind, 0)
