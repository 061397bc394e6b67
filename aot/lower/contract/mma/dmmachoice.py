"""Which tile of f64 on tensor cores computes a problem, and with which instruction.

In: a problem with sums in f64, and what all images have. Out: ways to compute it, the best first, as ``choice`` asks
for them: the first one whose condition holds runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mlir import ir

from aot.lower.contract.mma import dmma
from aot.lower.contract.products import extents
from aot.lower.contract.products.problem import Problem, all_of, any_of
from aot.lower.contract.products.splitting import Wish
from aot.lower.contract.simt import numbercopies
from aot.lower.contract.simt.matvec import Way
from aot.lower.contract.simt.registertile import Job
from aot.lower.hostmodule import rtcalls
from aot.targets.arch import Capability

TIMES = ((dmma.LARGE, 80), (dmma.MIDDLE, 41), (dmma.NARROW, 31), (dmma.SMALL, 13))
"""Tiles, the largest first, and how long a block takes in comparison."""
_FOR_SINGLES = TIMES[:2]
"""For copies of single numbers, which are more for each product the smaller a tile is."""
_FOR_REGISTERS = TIMES[1:2]
"""Where parts of a factor's tiles go through registers: the others would spill."""
_SHORT = 1024
"""Steps up to which a sum is short: adding up its parts would take longer than tiles that are smaller."""
_Choice = tuple[dmma.Tile, ir.Value | bool]
"""A tile, and when it is the best one."""


def ways(job: Job, need: str, least: Callable[[Capability], bool | None]) -> list[Way]:
    """With the best instruction that each image has; ``least``: whether all have a capability (None: some)."""
    room = extents.has_shared(dmma.LEAST_SHARED)
    found: list[Way] = []
    for instruction in dmma.INSTRUCTIONS:
        served = least(instruction.since)
        if served is False:
            continue
        name = need if served else f"sm_{instruction.since[0]}{instruction.since[1]}"
        has = [room] if served else [room, rtcalls.serves(name)]
        for vectors, (tile, best) in _choices(job.problem):
            fill = extents.MULTIPROCESSORS * tile.blocks
            wish = Wish(all_of([best, *has]), *tile.extents, tile.depth, in_parts=True, fill=fill)
            emit = partial(dmma.launch, replace(job, vectors=vectors), tile, instruction, name)
            found.append(Way(wish, emit))
        if served:
            break
    return found


def _choices(problem: Problem) -> list[tuple[bool, _Choice]]:
    """Whether copies take vectors, with which tile and when."""
    aligned = numbercopies.have_vectors(problem.factors)
    copied = all(numbercopies.is_copied(each) for each in problem.factors)
    tiles, singles = (TIMES, _FOR_SINGLES) if copied else (_FOR_REGISTERS, _FOR_REGISTERS)
    found = [(True, (tile, all_of([aligned, best]))) for tile, best in _fastest(problem, tiles)]
    return found + [(False, each) for each in _fastest(problem, singles)]


def _fastest(problem: Problem, times: Sequence[tuple[dmma.Tile, int]]) -> list[_Choice]:
    """Each tile if none behind it is faster: by the rounds of blocks that fill the GPU, and the time of a block."""
    found: list[_Choice] = []
    best: extents.Number | None = None
    for tile, time in reversed(times):
        mine = extents.rounds(problem, *tile.extents, time)
        fastest = best is None or extents.no_more(mine, best)
        found.insert(0, (tile, any_of([fastest, _in_parts(problem)]) if tile is dmma.MIDDLE else fastest))
        best = mine if best is None else extents.least(mine, best)
    return found


def _in_parts(problem: Problem) -> ir.Value | bool:
    """Whether long sums come in parts, since few tiles would leave at least half of the GPU idle."""
    rows, columns = dmma.MIDDLE.extents
    return all_of([extents.at_least(problem.k, _SHORT + 1), extents.at_once(problem, rows // 2, columns)])
