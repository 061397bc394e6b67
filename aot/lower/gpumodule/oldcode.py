"""Whether device code has nothing that LLVM writes differently for 9.0 than for 8.0.

In: a module in the LLVM and NVVM dialects. Out: whether ``aot.fatbins.samecode`` may take both for the same.

Different are bf16, of which 8.0 has few operations; 16-bit integers, which 9.0 adds and compares in pairs, so that
vectors of them cost LLVM something else, and loops are unrolled differently; and fences, also those of atomic
operations: 9.0 has some that only acquire or release. Numbers of both types that are moved and converted, and nothing
else, are the same, and so is all that is done with f16. But what is widened before it is computed, and narrowed after
that, LLVM may compute in bf16.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir
from aot.lower.analysis.elements import element_type

_FENCES = frozenset({"llvm.fence", "llvm.atomicrmw", "llvm.cmpxchg"})
_KINDS = frozenset({"bf16", "i16"})
_SAME = frozenset(
    f"llvm.{name}"
    for name in (
        *("br", "cond_br", "func", "return", "load", "store", "bitcast", "select"),
        *("mlir.constant", "mlir.poison", "mlir.undef", "mlir.zero"),
        *("extractelement", "extractvalue", "insertelement", "insertvalue", "shufflevector"),
    )
)
"""Operations with numbers of these kinds that are written alike."""
_CONVERSIONS = frozenset({"llvm.fpext", "llvm.fptrunc"})
"""So is each of these, without the other."""


def holds(module: mlir.Module) -> bool:
    """Whether a module has only what 8.0 and 9.0 share."""
    found: set[str] = set()
    kinds: dict[ir.Type, bool] = {}
    on = ir.WalkResult.ADVANCE

    def differs(kind: ir.Type) -> bool:
        if kind not in kinds:
            kinds[kind] = str(element_type(kind)) in _KINDS
        return kinds[kind]

    def look(each: mlir.Operation) -> ir.WalkResult:
        name, values = each.name, (*each.operands, *each.results)
        if name in _FENCES or (name not in _SAME and any(differs(value.type) for value in values)):
            found.add(name)
        return on

    module.operation.walk(look)
    return found < _CONVERSIONS
