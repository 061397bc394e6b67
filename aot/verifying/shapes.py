"""The shapes that a function is tried with: primes, ones, one past a tile, nothing at all.

In: Dims. Out: Shape by Shape, extents for all dynamic dimensions.

>>> [shape.label for shape in shapes(found)]                                     # doctest: +SKIP
['as found', 'ones', 'past a tile', 'm=0', 'n=0']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aot.verifying.dims import Dims
from aot.verifying.signature import TENSOR, Dim, Signature

PAST_A_TILE = (257, 129, 65, 33, 17)
"""Extents one past what schedules use as a tile; the last dimension gets the largest."""
BASE, EDGE = "as found", "edge"


@dataclass(frozen=True)
class Shape:
    """One choice of extents."""

    label: str
    extents: Mapping[Dim, int]
    edge: bool
    """Whether the function may refuse it."""


def shapes(signature: Signature, found: Dims) -> Iterator[Shape]:
    """The shapes to try, without repeating one."""
    yield Shape(BASE, found.extents, edge=False)
    free = [members for members in found.classes if not found.fixed & set(members)]
    if not free:
        return
    if signature.level != TENSOR:
        # Code on buffers checks nothing: a multiple of what is fine already is as far as one may go.
        yield Shape("doubled", _with(found, {members: 2 * found.extents[members[0]] for members in free}), edge=True)
        return
    yield Shape("ones", _with(found, dict.fromkeys(free, 1)), edge=True)
    tiles = dict(zip(reversed(free), (*PAST_A_TILE, *(3,) * len(free)), strict=False))
    yield Shape("past a tile", _with(found, tiles), edge=True)
    for members in free:
        yield Shape(f"{found.letters[members[0]]}=0", _with(found, {members: 0}), edge=True)


def _with(found: Dims, changed: Mapping[tuple[Dim, ...], int]) -> dict[Dim, int]:
    return {**found.extents, **{dim: extent for members, extent in changed.items() for dim in members}}
