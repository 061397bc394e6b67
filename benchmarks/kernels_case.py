"""What ``benchmarks/kernels.py`` asks of a family: cases, their inputs and peers, and float64's word on results.

A module for each group of families makes a Group: ``kernels_cases.py`` (memory-bound work), ``contractions_cases.py``.
``kernels.GROUPS`` lists them, ``kernels_write.GROUPS`` what makes their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
Shape = tuple[int, ...]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One thing to compute."""

    family: str
    name: str
    kind: str
    """Element type, as it is called in sources."""
    shape: Shape
    functions: Mapping[str, str]
    """Column of the table (static, dynamic) -> ``source.function`` of ours, whose last argument is a destination."""
    arrays: Callable[[str], list[Any]]
    """Makes new inputs on a device."""
    output: Shape
    out_dtype: torch.dtype
    peers: Mapping[str, Callable[[], Call | None]]
    """Column of the table -> makes what else computes it, not compiled before the first call; None: nothing does."""
    wrong: Callable[[list[Any], Any], str]
    """Inputs and a result -> why it is wrong, compared with float64; empty when it is right."""
    bytes: int
    """Of one call's arrays."""
    flops: int = 0
    """Of one call, where arithmetic bounds it: such cases are not compared with a copy."""
    is_copy_like: bool = False
    """Whether a plain copy of as many bytes is what it could reach."""
    for_peers: Callable[[list[Any]], list[Any]] = list
    """Makes of inputs what peers are given: the same values, where they want another layout."""
    bar: float = 0.95
    """The best peer's time over ours that it should reach."""

    @property
    def label(self) -> str:
        return f"{self.name:11} {self.kind:4} {'x'.join(map(str, self.shape)):14}"

    def destination(self, device: str) -> Any:
        """A result that nobody has written yet."""
        out = torch.empty(self.output, device=device, dtype=self.out_dtype)
        return out.fill_(float("nan") if self.out_dtype.is_floating_point else -1)


@dataclass(frozen=True)
class Group:
    """Families that have peers in common."""

    name: str
    families: tuple[str, ...]
    kinds: tuple[str, ...]
    """Element types of all of its cases."""
    peers: tuple[str, ...]
    """Columns of the table."""
    large: Callable[[str, str], Iterable[Case]]
    """Family and type -> the cases that the family is judged by."""
    small: Callable[[str, str], Iterable[Case]]
    """Short and odd ones, which are timed too."""
    awkward: Callable[[str, str], Iterable[Case]]
    """Cases at the edges of what tiles can take, which are only checked."""
    needs_own_package: bool = False
    """Whether it compares another build of the sources: it is not among all families then."""


def compiled(eager: Call) -> Call:
    """The same by PyTorch's compiler, for the shapes of its first call."""
    torch._dynamo.reset()
    return torch.compile(eager, dynamic=False)
