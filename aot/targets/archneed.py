"""What single kernels need: a plain architecture or any later one (``sm_80``), or exactly one (``sm_90a``).

In: Targets of images, and needs as canonical names. Out: which images hold such a kernel. One that is launched only
where blocks have less shared memory than some other kernel wants is not held where they all have it.

>>> from aot.targets.arch import target
>>> meets(target("compute_90"), "sm_80"), meets(target("sm_90"), "sm_90a"), meets(target("sm_80"), "")
(True, False, True)
>>> [meets(target(name), "", 128 * 1024) for name in ("sm_80", "sm_90a", "compute_90")]
[True, False, True]
"""

from __future__ import annotations

from aot.targets.arch import CUBIN, TABLE, Capability, Target, target


def meets(image: Target, need: str, less_shared: int = 0) -> bool:
    """Whether an image holds code with this need; every image does where there is none.

    ``less_shared``: the code is for GPUs whose blocks cannot have so many bytes of shared memory; 0: for any.
    """
    if less_shared and _runs_on_one(image) and image.arch.shared >= less_shared:
        return False
    if not need:
        return True
    least = target(need)
    if least.letter:
        return (image.capability, image.letter) == (least.capability, least.letter)
    return image.capability >= least.capability


def code(need: str) -> int:
    """A need as the number that runtime tables and host code hold; 0: none.

    >>> code("sm_90a") == 90 * 256 + ord("a")
    True
    """
    if not need:
        return 0
    least = target(need)
    return (10 * least.capability[0] + least.capability[1]) * 256 + (ord(least.letter) if least.letter else 0)


def stands_alone(capability: Capability) -> bool:
    """Whether no other device runs a plain cubin of this capability: it can as well be built with its letter ``a``.

    >>> stands_alone((9, 0)), stands_alone((10, 0))
    (True, False)
    """
    return all(arch.capability[0] != capability[0] or arch.capability == capability for arch in TABLE)


def _runs_on_one(image: Target) -> bool:
    """Whether devices of one capability alone run an image."""
    plain = not image.letter and stands_alone(image.capability)
    return image.kind == CUBIN and (plain or image.letter == "a")
