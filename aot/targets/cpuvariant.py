"""Kinds of processors that tensor-level functions are compiled for, besides GPUs.

In: a triple. Out: its variants, from the oldest processor to the newest; at run time the newest that fits is taken.

>>> [each.name for each in of("x86_64-linux-gnu")]
['v2', 'v3', 'v4']
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """Code for one kind of processor."""

    name: str
    """Ends the symbols of its entries: ``aot_cpu_entry_<source>__<function>__<name>``."""
    triple: str
    processor: str
    """LLVM's name."""
    attributes: str
    """LLVM's features on top of it."""
    vector_bytes: int
    """Of a vector register."""
    registers: int
    """Number of vector registers."""
    fma: bool
    """Whether there is a fused multiply-add; without one, ``math.fma`` is a call."""


VARIANTS = (
    Variant("v2", "x86_64-linux-gnu", "x86-64-v2", "", 16, 16, fma=False),
    Variant("v3", "x86_64-linux-gnu", "x86-64-v3", "", 32, 16, fma=True),
    Variant("v4", "x86_64-linux-gnu", "x86-64-v4", "-prefer-256-bit", 64, 32, fma=True),
    Variant("generic", "aarch64-linux-gnu", "generic", "", 16, 32, fma=True),
)


def of(triple: str) -> tuple[Variant, ...]:
    """The variants of one machine."""
    return tuple(each for each in VARIANTS if each.triple == triple)
