"""Products of few rows and many columns, one row among them: memory bounds them, and each multiprocessor is to copy.

With the factors' places changed (``wgmmaswapped``) a tile has 128 of the result's columns and no more rows than there
are, so that two blocks have room on a multiprocessor, each with as many copies under way as memory can use.

In: a Problem at the insertion point of its launch. Out: an offer, if its types fit.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir

from aot.lower.contract.products import extents, kinds
from aot.lower.contract.products.problem import Problem, all_of, any_of
from aot.lower.contract.wgmma import wgmma, wgmmafit, wgmmaswapped
from aot.lower.contract.wgmma.wgmmachoice import Offer
from aot.lower.contract.wgmma.wgmmatile import Tile

_TILE = Tile(128, 16, 5, 2, blocks=2, chunks=1, swapped=True)
"""Four stages or six and one block keep memory less busy."""
_COLUMNS, _COLUMNS_OF_ROWS = 75 * 128 + 1, 40 * 128
"""From which on this is faster than parts of sums; and where several rows meet weights whose columns are contiguous."""
_STEPS = 1024
"""Of the summed loop, from which on memory's pace matters more than a launch's."""
_HALF = 2
"""Bytes of elements."""


def offers(job: Problem) -> list[Offer]:
    """At most one."""
    kind, pairs = kinds.of(job), wgmmafit.has_pairs(job, job.epilogue.arrays())
    if job.asked is not None or job.batch or kind is None or kind.bytes != _HALF or not wgmmafit.covers(job):
        return []
    if pairs is False or not wgmmafit.can_stage(job) or not wgmmaswapped.can_swap(job):
        return []
    several = extents.at_least(job.m, 2)
    columns: list[ir.Value | bool] = [extents.at_least(job.n, _COLUMNS)]
    if job.right.turned:
        columns.append(all_of([several, extents.at_least(job.n, _COLUMNS_OF_ROWS)]))
    else:
        # Of one row with weights along the summed loop, threads that add up what they read are faster.
        columns = [all_of([several, *columns])]
    sizes = [extents.at_most(job.m, _TILE.columns), any_of(columns), extents.at_least(job.k, _STEPS)]
    tile = _TILE if wgmmaswapped.is_staged(job) else replace(_TILE, chunks=0)
    condition = all_of([*sizes, wgmmafit.condition(job), pairs])
    return [Offer(condition, lambda: wgmma.launch(job, tile, staged=True))] if condition is not False else []
