"""The table of ``benchmarks/kernels.py`` and what follows from it.

In: a case and the times of all contenders, one case after the other. Out: lines of text: microseconds of each
contender, ``x``: the best peer's time over ours, ``of copy``: the share of a copy's bandwidth (where arithmetic bounds
the family, TFLOP/s); at the end geometric means, the cases that lie under a bar, and what the mean of large arrays is
bound by: a copy's bandwidth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernels_case import Case
from kernels_timing import COPY, Timing

BARS = (0.95, 0.90, 0.85)
COPY_BAR = 0.90
"""For arrays past the L2 cache."""


@dataclass(frozen=True)
class Ratio:
    """One of our functions in one case."""

    site: str
    variant: str
    case: Case
    judged_with: str
    """Name of its family's group: means are of one group."""
    is_large: bool
    over_peer: float
    peer: str
    microseconds: float
    of_copy: float
    possible: float
    """``over_peer``, had ours taken as long as a copy, or as the fastest contender where that is faster."""

    def share(self) -> str:
        """Of what the machine can do."""
        if self.case.flops:
            return f"{self.case.flops / self.microseconds / 1e6:4.0f}"
        return f"{self.of_copy:4.0%}" if self.case.is_copy_like else ""

    @property
    def group(self) -> tuple[str, ...]:
        return (self.site, "large" if self.is_large else "small", self.case.family, self.case.kind, self.variant)


@dataclass
class Table:
    """All rows so far."""

    sites: Sequence[str]
    group: str = ""
    peers: Sequence[str] = ()
    """Of the family whose rows come."""
    ratios: list[Ratio] = field(default_factory=list)

    @property
    def ours(self) -> list[str]:
        return [column(site, variant) for site in self.sites for variant in ("static", "dynamic")]

    def head(self, title: str, group: str, peers: Sequence[str]) -> str:
        """The line above a family's rows."""
        self.group, self.peers = group, peers
        names = [*self.ours, *self.peers, COPY]
        return (
            f"{title:31} {' '.join(f'{name:>9}' for name in names)}  +-%  x, of copy or TFLOP/s: {' '.join(self.ours)}"
        )

    def row(self, case: Case, times: dict[str, Timing], *, is_large: bool) -> str:
        """One line; its ratios are kept."""
        cells = " ".join(f"{times[n].median:9.1f}" if n in times else 9 * " " for n in [*self.ours, *self.peers, COPY])
        found = {name: self._ratio(name, case, times, is_large=is_large) for name in self.ours if name in times}
        self.ratios += found.values()
        spread = 100 * max(each.spread for each in times.values())
        over = " ".join(f"{found[name].over_peer:5.2f}" if name in found else 5 * " " for name in self.ours)
        share = " ".join(found[name].share() if name in found else 4 * " " for name in self.ours)
        return f"{case.label:31} {cells} {spread:4.1f}  {over}  {share}".rstrip()

    def _ratio(self, name: str, case: Case, times: dict[str, Timing], *, is_large: bool) -> Ratio:
        variant, _, site = name.partition("@")
        rivals = {peer: times[peer].median for peer in self.peers if peer in times}
        peer = min(rivals, key=lambda each: rivals[each], default="")
        ours = times[name].median
        over = rivals[peer] / ours if peer else math.nan
        of_copy = times[COPY].median / ours if COPY in times else 0.0
        least = min(each.median for each in times.values())
        possible = rivals[peer] / least if peer else math.nan
        return Ratio(site, variant, case, self.group, is_large, over, peer, ours, of_copy, possible)

    def summary(self) -> Iterator[str]:
        """Means, and cases under a bar, of every site."""
        judged = [each for each in self.ratios if not math.isnan(each.over_peer)]
        for group in dict.fromkeys(each.group[:-1] for each in judged):
            means = []
            for variant in ("static", "dynamic"):
                over = [each.over_peer for each in judged if each.group == (*group, variant)]
                means += [f"{variant} {_mean(over):.3f} ({len(over)})"] if over else []
            yield f"mean {' '.join(group).strip():24} {', '.join(means)}"
        for site in self.sites:
            found = [each for each in judged if each.site == site]
            for together in dict.fromkeys((each.judged_with, each.is_large) for each in found):
                yield from self._verdict([each for each in found if (each.judged_with, each.is_large) == together])
                yield from self._bound([each for each in found if (each.judged_with, each.is_large) == together])
            yield from self._under_copy([each for each in self.ratios if each.site == site])

    def _bound(self, ratios: Sequence[Ratio]) -> Iterator[str]:
        """What the mean could be at most, and how near to a copy each family and its best peers are."""
        bound = [each for each in ratios if each.is_large and each.of_copy]
        if not bound:
            return
        mean = _mean([each.possible for each in bound])
        yield f"  bound: {mean:.3f}, were all as fast as a copy, or as the fastest contender where that is faster"
        alike = [each for each in bound if each.case.is_copy_like]
        for family in dict.fromkeys(each.case.family for each in alike):
            mine = [each for each in alike if each.case.family == family]
            peers = _mean([each.of_copy / each.over_peer for each in mine])
            yield f"  of a copy: {_mean([each.of_copy for each in mine]):4.0%} {family}, best peers {peers:.0%}"

    def _verdict(self, ratios: Sequence[Ratio]) -> Iterator[str]:
        one = ratios[0]
        under = ", ".join(f"{sum(each.over_peer < bar for each in ratios)} under {bar:.2f}" for bar in BARS)
        mean = f"geometric mean {_mean([each.over_peer for each in ratios]):.3f} of {len(ratios)}"
        missed = [each for each in ratios if each.over_peer < each.case.bar]
        title = f"{one.site} {one.judged_with} {'large' if one.is_large else 'small'}".strip()
        yield f"{title}: {mean}; {under}; under their own bars: {len(missed)}"
        for each in sorted(missed, key=lambda ratio: ratio.over_peer / ratio.case.bar):
            line = f"  {each.over_peer:.2f} of {each.peer:7} {each.case.label} {each.variant}"
            yield line if each.case.bar == BARS[0] else f"{line}, {each.case.bar:.2f} wanted"

    def _under_copy(self, ratios: Sequence[Ratio]) -> Iterator[str]:
        bound = [each for each in ratios if each.is_large and each.case.is_copy_like]
        slow = [each for each in bound if each.of_copy < COPY_BAR]
        if bound:
            yield f"{bound[0].site} under {COPY_BAR:.0%} of a copy: {len(slow)} of {len(bound)}".strip()
        for each in sorted(slow, key=lambda ratio: ratio.of_copy):
            yield f"  {each.of_copy:4.0%} {each.case.label} {each.variant}"


def column(site: str, variant: str) -> str:
    """Name of our function in a table; a site has a label when there are several."""
    return f"{variant}@{site}" if site else variant


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))
