"""Products of few rows, one row of many columns among them: memory bounds them, and each multiprocessor is to copy.

With the factors' places changed (``wgmmaswapped``) a tile has some of the result's columns and no more rows than there
are, so that two or three blocks have room on a multiprocessor, with as many copies under way as memory can use. Where
a kernel does not fill them, blocks of the next one are ready when it ends.

In: a Problem at the insertion point of its launch. Out: offers, if its types fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from aot.lower.contract.products import extents, kinds
from aot.lower.contract.products.extents import MULTIPROCESSORS
from aot.lower.contract.products.problem import Problem, all_of, any_of
from aot.lower.contract.wgmma import wgmma, wgmmafit, wgmmaswapped
from aot.lower.contract.wgmma.wgmmachoice import Offer
from aot.lower.contract.wgmma.wgmmatile import Tile

_NARROW = Tile(64, 16, 10, 1, blocks=2, chunks=1, swapped=True)
_WIDE = Tile(128, 16, 5, 2, blocks=2, chunks=1, swapped=True)
"""Four stages or six and one block keep memory less busy."""
_TILES = (
    (replace(_NARROW, splits=4), MULTIPROCESSORS // 4 * 64),
    (_NARROW, MULTIPROCESSORS * 64),
    (replace(_NARROW, stages=6, blocks=3), MULTIPROCESSORS * 96),
    (_WIDE, 0),
)
"""And the most columns that each is for; 0: any number."""
_COLUMNS_OF_ONE = 4096
"""From which on one row is faster so than by threads that add up what they read."""
_STEPS = 1024
"""Of the summed loop, from which on memory's pace matters more than a launch's."""
_HALF = 2
"""Bytes of elements."""


def offers(job: Problem) -> list[Offer]:
    """In the order of their columns."""
    kind, pairs = kinds.of(job), wgmmafit.has_pairs(job, job.epilogue.arrays())
    if job.asked is not None or job.batch or kind is None or kind.bytes != _HALF or not wgmmafit.covers(job):
        return []
    if pairs is False or not wgmmafit.can_stage(job) or not wgmmaswapped.can_swap(job):
        return []
    rows = [extents.at_least(job.m, 2)]
    if job.right.turned:
        # Along the summed loop threads read one row's weights as fast.
        rows.append(extents.at_least(job.n, _COLUMNS_OF_ONE))
    sizes = [extents.at_most(job.m, _WIDE.columns), any_of(rows), extents.at_least(job.k, _STEPS)]
    fits = all_of([*sizes, wgmmafit.condition(job), pairs])
    found, least = [], 0
    for tile, most in _TILES:
        columns = [extents.at_least(job.n, least + 1), *([extents.at_most(job.n, most)] if most else [])]
        found.append(Offer(all_of([fits, *columns]), partial(_launch, job, tile)))
        least = most
    return [each for each in found if each.condition is not False]


def _launch(job: Problem, tile: Tile) -> None:
    if not wgmmaswapped.is_staged(job):
        tile = replace(tile, chunks=0)
    wgmma.launch(job, tile, staged=True)
