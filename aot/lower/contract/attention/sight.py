"""Which keys the queries of an attention see, in host code and in kernels: those near their own places.

In: what ``causal`` found in the source. Out: for a query's place the first key that it sees, and the end of the last
one; conditions of the call.

A query at place ``p`` sees the last ``window`` of the keys up to ``p + last + offset``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.attention import onlinesoftmax
from aot.lower.contract.attention.causal import Band
from aot.lower.contract.attention.placesums import FARTHEST
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products.problem import Problem
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls

_CHUNK = 8
"""Elements of a copy."""


@dataclass(frozen=True, eq=False)
class Sight:
    """What a query sees."""

    last: int = 0
    window: int | None = None
    """None: all keys before the last one."""
    offset: ir.Value | None = None
    """An index of host code; None for 0."""
    conditions: tuple[ir.Value | bool, ...] = ()
    """Of the call, without which nothing may be left out."""

    @property
    def is_plain(self) -> bool:
        """Whether it is all keys up to a query's own place."""
        return self.last == 0 and self.window is None and self.offset is None

    def end(self, place: Word, more: Word | int = 0) -> Word:
        """The end of the keys that a query sees, ``more`` places behind another one; it may be behind all keys."""
        behind = self._moved(place + (more + (self.last + 1)))
        return behind if self.last >= 0 and self.offset is None else _natural(behind)

    def begin(self, place: Word, more: Word | int = 0) -> Word:
        """The first key that it sees."""
        if self.window is None:
            return place * 0
        return _natural(self._moved(place + (more + (self.last + 1 - self.window))))

    def span(self, scores: Problem) -> tuple[Word, Word]:
        """The first key that some query sees, and the end of the last one, in host code; one key in any case.

        The first one is a multiple of 8: copies of 16 bytes may be of neighbouring keys.
        """
        zero, m, n = (Word(each) for each in (rtcalls.index(0), scores.m.value, scores.n.value))
        first, end = self.begin(zero).least(n - 1) // _CHUNK * _CHUNK, n.least(self.end(zero, m - 1))
        return first, end.where(first.below(end), first + 1)

    def _moved(self, place: Word) -> Word:
        if self.offset is None:
            return place
        return place + (Word(self.offset) if isinstance(place.type, ir.IndexType) else narrow(self.offset))


def of(band: Band, scores: Problem) -> Sight:
    """What queries see, with host code at the insertion point."""
    offset, conditions = _offset(band)
    window = None if band.first is None else band.last - band.first + 1
    found = Sight(band.last, window, offset, conditions)
    if band.exact or found.is_plain:
        return found
    return Sight(band.last, window, offset, (*conditions, *_always_some(found, scores)))


def _offset(band: Band) -> tuple[ir.Value | None, tuple[ir.Value, ...]]:
    """What is subtracted as terms from the distance of a key, and whether all numbers are as small as places are."""
    total: Word | None = None
    conditions, times = [], dict(band.terms)
    for value in band.met:
        kind = ir.IndexType.get()
        number = value if value.type == kind else arith.IndexCastOp(kind, value).result
        reach = (Word(number) + FARTHEST).below(2 * FARTHEST)
        conditions.append(reach)
        if value in times:
            part = Word(number) * -times[value]
            total = part if total is None else total + part
    return None if total is None else total.value, tuple(conditions)


def _always_some(sight: Sight, scores: Problem) -> list[ir.Value | bool]:
    """Whether each query sees a key: where hidden ones have low scores, those would count for others."""
    found: list[ir.Value | bool] = []
    zero = Word(rtcalls.index(0))
    if sight.offset is not None:
        found.append(zero.below(sight.end(zero)))
    if sight.window is not None:
        found.append(_below(sight, scores.m, scores.n))
    return found


def _below(sight: Sight, m: Extent, n: Extent) -> ir.Value | bool:
    """Whether the last query sees one that is there."""
    if sight.offset is None and m.static is not None and n.static is not None and sight.window is not None:
        return m.static + sight.last - sight.window < n.static
    return sight.begin(Word(m.value), -1).below(Word(n.value))


def _natural(number: Word) -> Word:
    """The number, or 0 for a negative one."""
    return Word(arith.MaxSIOp(number.value, (number * 0).value).result)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of keys that a tile's queries see, by the first one's place; the first such piece has number 0."""

    sight: Sight
    all_keys: Word
    keys: int
    """Of a piece."""
    queries: int
    """Of a tile."""

    def seen(self, pieces: Word, m0: Word) -> Word:
        """How many there are of all pieces; one in any case."""
        end = pieces.least(self.sight.end(m0, self.queries - 1).tiles(self.keys))
        if self.sight.is_plain:
            return end
        skipped = self._skipped(m0)
        return end.where(skipped.below(end), skipped + 1) - skipped

    def number(self, m0: Word, piece: Word) -> Word:
        """The number of one among all pieces."""
        return piece if self.sight.window is None else piece + self._skipped(m0)

    def seen_by_all(self, m0: Word, pieces: Word) -> tuple[Word, Word]:
        """Of so many, the first one of which all queries see all keys, and the end of these."""
        skipped = self._skipped(m0)
        begin = (self.sight.begin(m0, self.queries - 1).tiles(self.keys) - skipped).least(pieces)
        end = (self.all_keys.least(self.sight.end(m0)) // self.keys).least(skipped + pieces)
        return begin, begin.where(end.below(skipped + begin), end - skipped)

    def _skipped(self, m0: Word) -> Word:
        """Those before them."""
        return (self.sight.begin(m0) // self.keys).least(self.all_keys.tiles(self.keys) - 1)


@dataclass(frozen=True, eq=False)
class Limits:
    """Places, from some key on, that a query sees; numbers may be negative."""

    end: Word
    begin: Word | None

    def seen(self, scores: Sequence[ir.Value], places: Sequence[int]) -> list[ir.Value]:
        """Scores of keys at these places, which count if they are among them."""
        return [self._seen(*each) for each in zip(scores, places, strict=True)]

    def _seen(self, score: ir.Value, place: int) -> ir.Value:
        counts = arith.CmpIOp(arith.CmpIPredicate.slt, constant(place).value, self.end.value).result
        if self.begin is not None:
            behind = arith.CmpIOp(arith.CmpIPredicate.sge, constant(place).value, self.begin.value).result
            counts = arith.AndIOp(counts, behind).result
        return arith.SelectOp(counts, score, onlinesoftmax.number(float("-inf"))).result


def limits(sight: Sight | None, keys: Word, query: tuple[Word, int], first: Word) -> Limits:
    """What a query, at a place and so many behind it, sees of all keys, as places from ``first`` on."""
    if sight is None:
        return Limits(keys - first, None)
    begin = None if sight.window is None else sight.begin(*query) - first
    return Limits(keys.least(sight.end(*query)) - first, begin)
