"""Which tile of ``wgmma`` computes a problem.

In: a Problem with types that fit, at the insertion point of its launch. Out: offers of launches, in branches of host
code where the extents, or the number of multiprocessors, decide at the call.

The estimate: blocks work in waves, one on each multiprocessor (or two small ones), and a wave takes as long as its tile
is large. Where all extents are known, the kernel is chosen for GPUs with 132 multiprocessors, as most of 9.0 have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from aot.lower.contract import productwishes
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import counts, kinds, problem
from aot.lower.contract.products.extents import MULTIPROCESSORS, Number
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma import wgmma, wgmmafit, wgmmaswapped
from aot.lower.contract.wgmma.wgmmatile import Tile
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

_PAIR = Tile(128, 256, 4, 2, below=2)
"""Two blocks share the right factor: that much less to copy."""
_LARGE = Tile(128, 256, 4, 2)
_WIDE = Tile(128, 192, 4, 2)
_SQUARE = Tile(128, 128, 6, 2)
_SMALL = Tile(64, 128, 4, 1, blocks=2, chunks=1)
_NARROW = Tile(64, 64, 6, 1, blocks=2, chunks=1)
_TALL = Tile(128, 64, 3, 2, blocks=2)
"""For convolutions with few filters."""
_SINGLE = Tile(64, 128, 8, 1, chunks=1, few=True)
"""For fewer tiles than multiprocessors: many copies under way. A stage's number is a remainder: 8 stages take less time
than 9 (or 6)."""
_SINGLE_PAIR = Tile(64, 128, 8, 1, below=2, chunks=1)
_FEW_SPLIT = Tile(64, 64, 12, 1, splits=2, few=True)
_SWAPPED = Tile(128, 72, 8, 2, below=2, beside=2, chunks=1, swapped=True)
"""The same, where rows begin between lines, for the fewest rows that copies take: both factors are shared."""
_SWAPPED_LARGE, _SWAPPED_SMALL = (replace(tile, chunks=0, swapped=True) for tile in (_LARGE, _SMALL))
"""For left factors that come through registers; threads store their sums."""
_FLAT_PAIR = Tile(128, 128, 6, 2, beside=2)
_FLAT_LONG = Tile(128, 128, 6, 2, beside=4)
_FLAT_SPLIT = Tile(128, 64, 8, 2, splits=2, few=True)
_FEWEST_SPLIT = Tile(128, 64, 8, 2, splits=4, few=True)
_BETWEEN = tuple(Tile(128, columns, 4, 2) for columns in (240, 224, 208, 176, 160, 144))
"""More widths for few waves of tiles: one of them may need a wave less, or less of the last one."""
_TURNED = tuple(
    Tile(128, columns, stages, 2, chunks=1, swapped=True)
    for columns, stages in ((240, 3), (224, 3), (208, 4), (176, 4), (160, 5), (144, 5))
)
"""The same where a right factor's columns are contiguous, which come by 64: as many rows of the left one instead."""
_WEIGHTS = {_PAIR: 100, _LARGE: 100, _WIDE: 104, _SMALL: 110, _SQUARE: 112}
_WEIGHTS |= dict(zip(_BETWEEN, (102, 103, 104, 109, 114, 120), strict=True))
_WEIGHTS |= dict(zip(_TURNED, (101, 101, 100, 102, 102, 102), strict=True))
"""Time for each element of a wave's tile: small tiles copy more of the factors for it."""
_CANDIDATES = (_LARGE, _WIDE, _SMALL, _SQUARE)
_MANY_COLUMNS = 67
"""Tiles of 128 columns that keep the GPU busy without others below them: half of the multiprocessors do."""
_HALF = 2
"""Bytes of elements whose factors may lie either way."""
_LONG = 1024
"""Steps of the summed loop from which on two blocks share it; four, from twice as many on."""
_SHARE = 3
"""One in so many multiprocessors keeps the GPU busy enough."""
_MANY_WAVES = 3
"""Waves from which on it pays that two blocks wait for each other."""
_PAIRED_BYTES = 32
"""Rows that do not begin at multiples of it cost TMA twice the lines: sharing them halves that."""


@dataclass(frozen=True, eq=False)
class Offer:
    """Kernels that can compute a problem."""

    condition: ir.Value | bool
    """Whether they can, known at the call."""
    launch: Callable[[], None]


def offers(job: Problem) -> list[Offer]:
    """The best one first."""
    if job.asked is not None and not productwishes.may_have(job.asked, job):
        return []
    pairs = wgmmafit.has_pairs(job, job.epilogue.arrays())
    staged = wgmmafit.can_stage(job) and pairs is not False
    fits, width = wgmmafit.condition(job), 2 if staged or pairs is True else 1
    conditions = [fits, *([pairs] if staged else [])]
    found = [Offer(problem.all_of(conditions), lambda: _choose(job, staged=staged, width=width))]
    if staged and job.n.static is None and job.asked is None:
        found.append(_odd(job, fits))
    return found


def swapped(job: Problem) -> list[Offer]:
    """For a right factor that tensor cores take from registers only, where they have the left one: two tiles."""
    changed = wgmmaswapped.swapped(job)
    if job.asked is not None or not wgmmafit.takes_from_registers(changed):
        return []
    rules = _Rules(changed, staged=False)
    # Few tiles take long for their sums: those of a copied factor come in parts.
    busy = counts.at_least(counts.times(rules.count(_SMALL), _SHARE), rules.places)
    sizes = [Rule(counts.at_least(rules.count(_LARGE), rules.places), _SWAPPED_LARGE), Rule(True, _SWAPPED_SMALL)]
    launch = partial(_first, sizes, lambda tile: wgmma.launch(job, tile, staged=False, width=1))
    return [Offer(problem.all_of([wgmmafit.condition(changed), busy]), launch)]


def _odd(job: Problem, fits: ir.Value | bool) -> Offer:
    """For rows of the result that the call finds to be odd: few tiles, or every kernel would be there twice."""
    rules = _Rules(job, staged=False)
    busy = counts.at_least(counts.times(rules.count(_SMALL), 2), rules.places)
    condition = problem.all_of([fits, counts.negated(counts.at_most(rules.m, 64)), busy])
    large, small = (_SQUARE, _SINGLE) if rules.adds else (_LARGE, _SMALL)
    single = [] if rules.adds else [Rule(rules.is_single(), _SINGLE)]
    sizes = [*single, Rule(counts.at_least(rules.count(large), rules.places), large), Rule(True, small)]
    return Offer(condition, lambda: _first(sizes, lambda tile: wgmma.launch(job, tile, staged=False, width=1)))


def _choose(job: Problem, *, staged: bool, width: int) -> None:
    rules = _Rules(job, staged=staged).all() if job.asked is None else [Rule(True, productwishes.wgmma_tile(job.asked))]
    _first(rules, lambda tile: wgmma.launch(job, tile, staged=staged, width=width))


def _first(rules: Sequence[Rule], launch: Callable[[Tile], None]) -> None:
    """Launch by the first rule that holds; the last one does."""
    conditions = [*(rule.condition for rule in rules[:-1]), True]
    branches.first(zip(conditions, (partial(launch, rule.tile) for rule in rules), strict=True))


@dataclass(frozen=True)
class Rule:
    """A tile, and when it is the best one."""

    condition: ir.Value | bool
    tile: Tile


class _Rules:
    """Rules for one problem; numbers where they are known, else words of host code."""

    def __init__(self, job: Problem, *, staged: bool) -> None:
        self.job = job
        self.m, self.n, self.k = (counts.number(each) for each in (job.m, job.n, job.k))
        self.batches: Number = 1
        for each in job.batch:
            self.batches = counts.times(self.batches, counts.number(each))
        kind = kinds.of(job)
        self.adds = kind is not None and kind.is_small_float
        """Whether sums of stages are added up in registers of their own: there is no room for large tiles."""
        plain = kind is not None and kind.bytes == _HALF and job.window is None
        self.swaps = plain and staged and wgmmaswapped.can_swap(job)
        """Whether factors may change places."""
        self.is_plain = plain
        self.known = all(isinstance(each, int) for each in (self.m, self.n, self.batches))
        self.places: Number = MULTIPROCESSORS if self.known else Word(rtcalls.multiprocessors())

    def all(self) -> list[Rule]:
        """In order; the last one has no condition."""
        if self.job.window is not None:
            return [Rule(counts.at_most(self.n, 64), _TALL), *(self._known() if self.known else self._unknown())]
        few, flat = counts.at_most(self.m, 64), counts.at_most(self.m, 128)
        wide = counts.at_least(counts.tiles(self.n, 128), _MANY_COLUMNS)
        long = counts.at_least(counts.times(counts.tiles(self.n, 128), self.batches), _MANY_COLUMNS)
        deep, deeper = (counts.at_least(self.k, steps) for steps in (_LONG, 2 * _LONG))
        return [
            Rule(counts.both(deeper, self._run_at_once(_FEWEST_SPLIT)), _FEWEST_SPLIT),
            Rule(counts.both(deep, self._run_at_once(_FEW_SPLIT)), _FEW_SPLIT),
            *self._flat(counts.both(flat, counts.negated(few)), wide, long),
            Rule(problem.all_of([flat, deep, self._run_at_once(_FLAT_SPLIT)]), _FLAT_SPLIT),
            *([Rule(True, _NARROW)] if isinstance(self.n, int) and self.n <= _NARROW.columns else []),
            *(self._known(few) if self.known else self._unknown(few)),
        ]

    def _flat(self, flat: ir.Value | bool, wide: ir.Value | bool, long: ir.Value | bool) -> list[Rule]:
        """For some rows, and columns or products that keep a GPU busy; four blocks cannot share a turned factor."""
        whole = [] if self.job.left.turned else [Rule(counts.both(flat, wide), _FLAT_LONG)]
        return whole if whole and not self.job.batch else [*whole, Rule(counts.both(flat, long), _FLAT_PAIR)]

    def _known(self, few: ir.Value | bool = False) -> list[Rule]:
        if few is True or self.is_single() is True:
            shared = few is not True and self._misplaced() is True
            one = self._swapped() if shared and self._fits_swapped() is True else _SINGLE_PAIR
            return [Rule(True, one if shared else _SINGLE)]
        costs = [(cost, tile) for tile in self._candidates() if isinstance(cost := self._cost(tile), int)]
        best = min(costs, key=lambda each: each[0])[1]
        if best == _LARGE and self._pays_to_share() is True:
            best = _PAIR
        return [Rule(True, best)]

    def _candidates(self) -> tuple[Tile, ...]:
        """For many tiles of a problem with known extents."""
        if self.adds:
            return (_SQUARE,)
        waves = counts.ceiling(self.count(_LARGE), self.places)
        few = self.is_plain and isinstance(waves, int) and waves < _MANY_WAVES
        turned = self.swaps and self.job.right.turned and wgmmaswapped.is_staged(self.job)
        return (*_CANDIDATES, *(_TURNED if turned else _BETWEEN)) if few else _CANDIDATES

    def _unknown(self, few: ir.Value | bool = False) -> list[Rule]:
        shared = counts.both(counts.both(self.is_single(), counts.negated(few)), self._misplaced())
        singles = [
            *([Rule(counts.both(shared, self._fits_swapped()), self._swapped())] if self.swaps else []),
            Rule(shared, _SINGLE_PAIR),
            Rule(problem.any_of([few, self.is_single()]), _SINGLE),
        ]
        if self.adds:
            return [*singles, Rule(True, _SQUARE)]
        large, wide, small = (self._cost(tile) for tile in (_LARGE, _WIDE, _SMALL))
        best = counts.both(counts.at_most(large, wide), counts.at_most(large, small))
        return [
            *singles,
            Rule(counts.both(best, self._pays_to_share()), _PAIR),
            Rule(best, _LARGE),
            Rule(counts.at_most(wide, small), _WIDE),
            Rule(True, _SMALL),
        ]

    def is_single(self) -> ir.Value | bool:
        """Whether all tiles have a multiprocessor of their own."""
        return counts.at_most(self.count(_SINGLE), self.places)

    def _swapped(self) -> Tile:
        return _SWAPPED if wgmmaswapped.is_staged(self.job) else replace(_SWAPPED, chunks=0)

    def _fits_swapped(self) -> ir.Value | bool:
        """Whether all clusters of four with changed places run at once, and for long enough."""
        return problem.all_of([self.swaps, counts.at_least(self.k, _LONG // 2), self._run_at_once(_SWAPPED)])

    def _run_at_once(self, tile: Tile) -> ir.Value | bool:
        """Whether all clusters do: large ones leave some multiprocessors of a GPU's parts over."""
        blocks = counts.times(self.count(tile), tile.splits)
        if tile.cluster <= _PAIR.cluster:
            return counts.at_most(blocks, self.places)
        return counts.at_most(counts.times(blocks, 8), counts.times(self.places, 7))

    def _pays_to_share(self) -> ir.Value | bool:
        """Whether two blocks of large tiles should share a factor: they wait for each other once a tile."""
        waves = counts.ceiling(self.count(_LARGE), self.places)
        long = counts.both(counts.at_least(waves, _MANY_WAVES), counts.at_least(self.k, _LONG))
        return problem.any_of([long, self._misplaced()])

    def _misplaced(self) -> ir.Value | bool:
        """Whether rows of an array begin where a pair of lines does not."""
        pairs = [
            problem.is_multiple(factor.pitch, _PAIRED_BYTES // rtcalls.storage_bytes(factor.element))
            for factor in self.job.factors
        ]
        return counts.negated(problem.all_of(pairs))

    def count(self, tile: Tile) -> Number:
        """Tiles of the problem, in whole clusters."""
        down, across = (self.n, self.m) if tile.swapped else (self.m, self.n)
        rows = counts.times(counts.tiles(down, tile.rows * tile.below), tile.below)
        columns = counts.times(counts.tiles(across, tile.columns * tile.beside), tile.beside)
        return counts.times(counts.times(rows, columns), self.batches)

    def _cost(self, tile: Tile) -> Number:
        waves = counts.ceiling(self.count(tile), counts.times(self.places, tile.blocks))
        return counts.times(waves, tile.rows * tile.columns * tile.blocks * _WEIGHTS[tile])
