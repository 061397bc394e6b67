"""How loops are to be unrolled, put where the translation to LLVM reads it.

In: a module in the LLVM dialect, whose branches were loops. Out: the same. Loops of ours carry
``llvm.loop_annotation``, which upstream's conversions hand on to the branch back as they find it; LLVM is told only
what is the branch's own ``loop_annotation``.
"""

from __future__ import annotations

from aot import mlir
from aot.lower.analysis import opwalk

ATTRIBUTE = "llvm.loop_annotation"
"""Attribute of a loop above the LLVM dialect."""
_OWN = "loop_annotation"


def hand_over(module: mlir.Module) -> None:
    """Give the marks of loops to their branches."""
    for branch in opwalk.named(module, "llvm.br", "llvm.cond_br"):
        if ATTRIBUTE in branch.attributes:
            branch.attributes[_OWN] = branch.attributes[ATTRIBUTE]
            del branch.attributes[ATTRIBUTE]
