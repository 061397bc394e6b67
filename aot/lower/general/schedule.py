"""Which way a region is laid out on blocks and threads: for loops that have no faster schedule.

In: facts about a nest of parallel loops. Out: a Schedule, which launchnest.py turns into a launch.

>>> choose(Nest((None, 1000), has_loops=False))
Schedule(name='general', block=(32, 8, 1))

There is one schedule for all that neither ``aot/lower/fast`` nor ``aot/lower/contract`` covers, correct for every
nest: parallel dimensions are cut into tiles, one element per thread, neighbouring threads on the innermost
dimension, reductions sequential in their thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aot.settings.wishes import GENERAL
from aot.targets.arch import WARP

ONE_THREAD = "one-thread"
"""Not chosen: what is left of a function's work when its loops are launches."""

_THREADS = 256
_THREADS_OF_LONG_ROWS = 64
"""Per block, when each thread runs a loop of its own: fewer, so that few rows still reach many multiprocessors."""
_MAX_Z = 64
"""Threads that a block may have along z, on every architecture."""


@dataclass(frozen=True)
class Nest:
    """A nest of parallel loops that becomes one launch."""

    extents: tuple[int | None, ...]
    """Iterations of each loop, outermost first; None where known only at run time."""
    has_loops: bool
    """Whether the body holds loops: a reduction, or a nest inside the nest."""


@dataclass(frozen=True)
class Schedule:
    """How a nest is run."""

    name: str
    block: tuple[int, int, int]
    """Threads per block along x, y, z; x is the innermost loop, y the next, z all others together."""


def choose(nest: Nest) -> Schedule:
    """The schedule for a nest, by its shape."""
    threads = _THREADS_OF_LONG_ROWS if nest.has_loops and len(nest.extents) == 1 else _THREADS
    innermost_first = tuple(reversed(nest.extents))
    if len(innermost_first) == 1:
        return Schedule(GENERAL, (_fitting(innermost_first[0], threads), 1, 1))
    x = _fitting(innermost_first[0], threads if _product(innermost_first[1:]) == 1 else WARP)
    y = _fitting(innermost_first[1], threads // x)
    z = _fitting(_product(innermost_first[2:]), min(_MAX_Z, threads // (x * y)))
    if innermost_first[0] is not None and innermost_first[0] > x and x * y * z < threads:
        x = min(threads // (y * z), _power_of_two(innermost_first[0]))
    return Schedule(GENERAL, (x, y, z))


def _fitting(extent: int | None, limit: int) -> int:
    """As many threads as there is work, a power of two, at most ``limit``."""
    return limit if extent is None else min(limit, _power_of_two(extent))


def _power_of_two(extent: int) -> int:
    return 1 << max(0, extent - 1).bit_length()


def _product(extents: Iterable[int | None]) -> int | None:
    total = 1
    for extent in extents:
        if extent is None:
            return None
        total *= extent
    return total
