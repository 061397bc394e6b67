"""Architectures that LLVM makes no difference between.

In: two targets. Out: whether PTX for one is PTX for the other, but for its header and the early start of kernels.

LLVM 22 asks for 9.0 in few places: arithmetic on bf16 and on pairs of 16-bit integers, and acquiring or releasing
fences. Code without these is the same for 8.0 and 9.0, and for 9.0a (``aot.lower.gpumodule.oldcode`` looks for them).

>>> from aot.targets.arch import target
>>> same_code(target("sm_86"), target("sm_80"), old=False), same_code(target("sm_90"), target("sm_80"), old=False)
(True, False)
>>> same_code(target("sm_90a"), target("sm_80"), old=True)
True
"""

from __future__ import annotations

from aot.targets.arch import Capability, Target

_AS: dict[Capability, Capability] = {(8, 6): (8, 0), (8, 7): (8, 0), (8, 8): (8, 0), (8, 9): (8, 0)}
"""Architectures for which LLVM 22 writes what it writes for an older one, of code that fits both."""
_OLD, _OLD_AS = (9, 0), (8, 0)
"""The same, of code in which nothing is that LLVM asks for 9.0 for; what has no letter needs none there, either."""


def same_code(one: Target, other: Target, *, old: bool) -> bool:
    """Whether LLVM writes the same PTX for both, of code that fits both; ``old``: that has nothing new in 9.0."""
    return one.kind == other.kind and _written_as(one, old=old) == _written_as(other, old=old)


def _written_as(target: Target, *, old: bool) -> tuple[Capability, str]:
    """The capability and the letter that stand for a target's."""
    if old and target.capability == _OLD:
        return _OLD_AS, ""
    return _AS.get(target.capability, target.capability), target.letter
