"""Whether device code has nothing that LLVM writes differently for 9.0 than for 8.0.

In: a module in the LLVM and NVVM dialects. Out: whether ``aot.samecode`` may take both for the same.

Different are bf16, of which 8.0 has few operations; 16-bit integers, which 9.0 adds and compares in pairs, so that
vectors of 16-bit numbers cost LLVM something else, and loops are unrolled differently; and fences, also those of
atomic operations: 9.0 has some that only acquire or release.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir

_FENCES = frozenset({"llvm.fence", "llvm.atomicrmw", "llvm.cmpxchg"})
_FUNCTION = "llvm.func"
_KINDS = frozenset({"bf16", "f16", "i16"})


def holds(module: mlir.Module) -> bool:
    """Whether a module has only what 8.0 and 9.0 share."""
    names: set[str] = set()
    kinds: set[ir.Type] = set()
    on = ir.WalkResult.ADVANCE

    def look(each: mlir.Operation) -> ir.WalkResult:
        names.add(each.name)
        kinds.update(result.type for result in each.results)
        if each.name == _FUNCTION:
            kinds.update(argument.type for block in each.regions[0].blocks for argument in block.arguments)
        return on

    module.operation.walk(look)
    return names.isdisjoint(_FENCES) and _KINDS.isdisjoint(str(_element(each)) for each in kinds)


def _element(kind: ir.Type) -> ir.Type:
    return kind.element_type if isinstance(kind, ir.VectorType) else kind
