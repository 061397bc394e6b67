"""Nothing of a tensor-level function may be computed on the host by accident.

In: a lowered module. Out: nothing, or an error that names every operation left on the host, with its place.

Host code may compute sizes and conditions (arith, index, math), branch, describe memory, call and launch.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.errors import Diagnostic, LoweringError
from aot.lower.analysis import opwalk, views

_DIALECTS = frozenset({"arith", "index", "math", "cf", "ub", "complex", "llvm", "builtin"})
_OPS = (
    frozenset(
        {"scf.for", "scf.if", "scf.while", "scf.index_switch", "scf.execute_region", "scf.yield", "scf.condition"}
        | {"func.func", "func.return", "func.call", "func.constant", "func.call_indirect"}
        | {"affine.apply", "affine.min", "affine.max", "gpu.launch", "gpu.module", "memref.global", "memref.get_global"}
        | {"memref.dim", "memref.rank", "memref.extract_aligned_pointer_as_index", "memref.extract_strided_metadata"}
        | {"vector.print"}
    )
    | views.VIEWS
)
_ON_HOST_MEMORY = frozenset({"memref.load", "memref.store", "memref.alloca"})


def check(module: ir.Module) -> None:
    """LoweringError unless all host code is of the allowed kinds."""
    problems = [mlir.diagnostic_at(op, _reason(op)) for op in opwalk.on_host(module.operation) if not _allowed(op)]
    if problems:
        raise LoweringError(
            f"{module.context.aot_path}: operations that cannot be put on the device", diagnostics=_once(problems)
        )


def _allowed(op: ir.Operation) -> bool:
    if op.name in _ON_HOST_MEMORY:
        memory = op.results[0] if op.name == "memref.alloca" else op.operands[op.name == "memref.store"]
        return views.is_host(memory)
    return op.name in _OPS or op.name.split(".")[0] in _DIALECTS


def _reason(op: ir.Operation) -> str:
    if op.name.startswith("sparse_tensor.") or op.name.startswith("vector.mask"):
        return f"'{op.name}' is not supported"
    return f"this operation would run on the host: '{op.name}'"


def _once(problems: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(dict.fromkeys(problems))
