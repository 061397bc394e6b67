"""Architectures that LLVM makes no difference between.

In: two targets. Out: whether PTX for one is PTX for the other, but for its header.

>>> from aot.arch import target
>>> same_code(target("sm_86"), target("sm_80")), same_code(target("sm_90"), target("sm_80"))
(True, False)
"""

from __future__ import annotations

from aot.arch import Capability, Target

_AS: dict[Capability, Capability] = {(8, 6): (8, 0), (8, 7): (8, 0), (8, 8): (8, 0), (8, 9): (8, 0)}
"""Architectures for which LLVM 22 writes what it writes for an older one, of code that fits both."""


def same_code(one: Target, other: Target) -> bool:
    """Whether LLVM writes the same PTX for both, of code that fits both."""
    first, second = (_AS.get(each.capability, each.capability) for each in (one, other))
    return first == second and one.letter == other.letter and one.kind == other.kind
