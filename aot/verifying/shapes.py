"""The shapes that a function is tried with: primes, ones, one past a tile, nothing at all.

In: Dims. Out: Shape by Shape, extents for all dynamic dimensions.

>>> [shape.label for shape in shapes(found)]                                     # doctest: +SKIP
['as found', 'ones', 'past a tile', 'm=0', 'n=0']
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aot.verifying import cost
from aot.verifying.dims import Dims
from aot.verifying.signature import Dim, Signature

PAST_A_TILE = ((257, 129, 65, 33, 17), (129, 33, 17, 5, 3), (65, 9, 5, 3, 2), (33, 5, 3, 2, 2))
"""Extents one past what schedules use as a tile; the last dimension gets the largest. The first that is affordable."""
MOST_ELEMENTS, MOST_OPERATIONS = 1 << 22, 1 << 30
BASE = "as found"


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
    if not signature.checks_extents:
        # Code on buffers checks nothing: a multiple of what is fine already is as far as one may go.
        yield Shape("doubled", _with(found, {members: 2 * found.extents[members[0]] for members in free}), edge=True)
        return
    yield Shape("ones", _with(found, dict.fromkeys(free, 1)), edge=True)
    for extents in PAST_A_TILE:
        tiles = _with(found, dict(zip(reversed(free), (*extents, *(1,) * len(free)), strict=False)))
        if not _too_much(signature, tiles):
            yield Shape("past a tile", tiles, edge=True)
            break
    for members in free:
        yield Shape(f"{found.letters[members[0]]}=0", _with(found, {members: 0}), edge=True)


def _too_much(signature: Signature, extents: Mapping[Dim, int]) -> bool:
    arrays = [parameter.shape for parameter in signature.parameters]
    largest = max(
        (
            math.prod(extents[number, axis] if extent is None else extent for axis, extent in enumerate(shape))
            for number, shape in enumerate(arrays)
            if shape is not None
        ),
        default=0,
    )
    operations = cost.estimate(signature, extents, "operations") or 0
    written = cost.estimate(signature, extents, "written") or 0
    return max(largest, written // 8) > MOST_ELEMENTS or operations > MOST_OPERATIONS


def _with(found: Dims, changed: Mapping[tuple[Dim, ...], int]) -> dict[Dim, int]:
    return {**found.extents, **{dim: extent for members, extent in changed.items() for dim in members}}
