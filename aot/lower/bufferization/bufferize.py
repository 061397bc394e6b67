"""Tensors become buffers, and buffers are given back as early as possible.

In: linalg on tensors, whose arguments say whether they may be written (signature.protect_inputs).
Out: linalg on memrefs; ``memref.alloc`` for what the function needs; ``memref.dealloc`` on every path.

>>> to_memrefs(module)                                        # doctest: +SKIP
>>> module, note = release(module)                            # doctest: +SKIP
"""

from __future__ import annotations

from io import BytesIO

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import views
from aot.lower.bufferization import loopyields

_BUFFERIZE = (
    "eliminate-empty-tensors",
    "func.func(empty-tensor-to-alloc-tensor)",
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map"
    " unknown-type-conversion=identity-layout-map allow-return-allocs-from-loops allow-unknown-ops}",
    "canonicalize",
    "cse",
)
_RELEASE = ("buffer-deallocation-pipeline", "convert-bufferization-to-memref", "inline", "canonicalize", "cse")
_KEEP = ("convert-bufferization-to-memref", "canonicalize", "cse")


def to_memrefs(module: ir.Module) -> None:
    """One-shot bufferization; an operation that cannot live on buffers is an error with its location."""
    loopyields.copy_arguments(module)
    mlir.run_passes(module, _BUFFERIZE, "turning tensors into buffers")
    left = [op for op in mlir.walk(module) if _on_tensors(op)]
    if left:
        raise LoweringError(
            f"{module.context.aot_path}: operations on tensors that cannot be lowered",
            diagnostics=tuple(mlir.diagnostic_at(op, f"'{op.name}' is not supported") for op in left),
        )


def _on_tensors(op: ir.Operation) -> bool:
    if op.name.startswith("bufferization.to_"):
        return False  # only there because of the operations that this function is looking for
    values = [*op.operands, *op.results]
    return any(isinstance(value.type, ir.RankedTensorType | ir.UnrankedTensorType) for value in values)


def release(module: ir.Module) -> tuple[ir.Module, str]:
    """Insert deallocations; also says why it could not, in which case the runtime frees when the call ends.

    Ownership-based deallocation refuses sources that free by themselves, and a pass that fails leaves
    half-rewritten IR behind: it works on the module while a copy is kept.
    """
    if "memref.dealloc" in mlir.op_names(module):
        mlir.run_passes(module, _KEEP, "lowering buffer operations")
        return module, "the source frees buffers itself; others live until the call ends"
    before = BytesIO()
    module.operation.write_bytecode(before)
    names = {mlir.symbol_name(op) for op in module.body.operations}
    try:
        mlir.run_passes(module, _RELEASE[:2], "freeing buffers")
    except LoweringError as problem:
        try:
            module = ir.Module.parse(before.getvalue(), context=module.context)
        except ir.MLIRError:
            # The source is at fault: constants that do not fit were folded into types.
            raise problem from None
        mlir.run_passes(module, _KEEP, "lowering buffer operations")
        reasons = "; ".join(each.message for each in problem.diagnostics) or problem.message
        return module, f"buffers live until the call ends: {reasons}"
    _keep_lists_on_host(module, names)
    mlir.run_passes(module, _RELEASE[2:], "freeing buffers")
    return module, ""


def _keep_lists_on_host(module: ir.Module, before: set[str]) -> None:
    """Lists of buffers that the pass's own helper functions walk are host memory: they move to the stack."""
    helpers = {mlir.symbol_name(op) for op in module.body.operations} - before
    for call in [op for op in mlir.walk(module) if op.name == "func.call"]:
        if ir.FlatSymbolRefAttr(call.attributes["callee"]).value not in helpers:
            continue
        function = next(each for each in mlir.parents(call) if each.name == "func.func")
        for value in call.operands:
            made_by = mlir.owner(value)
            while isinstance(made_by, ir.Operation) and made_by.name == "memref.cast":
                made_by = mlir.owner(made_by.operands[0])
            if isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc":
                _to_stack(made_by, function)


def _to_stack(alloc: ir.Operation, function: ir.Operation) -> None:
    value = alloc.results[0]
    for use in list(value.uses):
        if use.owner.operation.name == "memref.dealloc":
            use.owner.operation.erase()
    # In the entry block, so that a loop does not grow the stack.
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), alloc.location:
        stack = memref.AllocaOp(value.type, [], []).operation
        stack.attributes[views.HOST_MARK] = ir.UnitAttr.get()
    value.replace_all_uses_with(stack.results[0])
    alloc.erase()
