"""Conditions of candidates, as host code: which tile may run is known when the function is called.

In: a job and a candidate. Out: True or False where that is known when it is compiled, else a value of host code.

>>> Conditions(job).of(candidate)                                             # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith

from aot.lower.fast.regions import places
from aot.lower.fast.rowwise import slices
from aot.lower.fast.rowwise.chunks import SHIFTED
from aot.lower.fast.rowwise.rowjob import Job, Tile
from aot.lower.fast.table import Candidate
from aot.lower.hostmodule import rtcalls

SHARED_LIMIT = 99 * 1024
"""Bytes of shared memory that a block may have on every architecture from sm_80 on."""
_MOST_SHARED = 227 * 1024
"""On any of them."""
_COUNTED = 2**31 - 1
"""Columns that kernels with vectors can number."""


class Conditions:
    """Conditions of one region."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.columns = job.space.columns
        self.wide = [place for place in [*job.places.values(), *(place for _, place in job.stores)] if place.wide]
        self.aligned: ir.Value | bool = places.aligned(self.wide) if self.wide else True
        self.strict = any(place.gaps or place.inner for place in self.wide)
        cached = sum(rtcalls.storage_bytes(job.places[source].element) for source in job.cached())
        self.row_bytes = cached

    def of(self, candidate: Candidate) -> ir.Value | bool:
        """Whether the candidate may run."""
        parts: list[ir.Value | bool] = [
            self._least(candidate.least),
            self._at_most(candidate.most),
            self._multiple(candidate),
        ]
        if candidate.sliced:
            parts.append(self._few(slices.MANY_ROWS))
        if candidate.most_rows is not None:
            parts.append(self._few(candidate.most_rows))
        if candidate.shared:
            parts.append(self._fits(candidate.tile))
        if candidate.tile.cluster > 1:
            parts.append(self._worth(candidate.tile))
            parts.append(rtcalls.serves(candidate.tile.need))
        if self.job.searches() and candidate.tile.width > 1:
            parts.append(self._at_most(_COUNTED))
        if candidate.aligned:
            parts.append(self.aligned)
        total: ir.Value | bool = True
        for part in parts:
            total = _both(total, part)
        return total

    def _few(self, most: int) -> ir.Value | bool:
        rows_ = self.job.space.rows
        if rows_.static is not None:
            return rows_.static <= most
        return self._compare(arith.CmpIPredicate.ule, rows_.value, most)

    def _least(self, least: int) -> ir.Value | bool:
        if not least:
            return True
        if self.columns.static is not None:
            return self.columns.static >= least
        return self._compare(arith.CmpIPredicate.uge, self.columns.value, least)

    def _at_most(self, most: int | None) -> ir.Value | bool:
        if most is None:
            return True
        if self.columns.static is not None:
            return self.columns.static <= most
        return self._compare(arith.CmpIPredicate.ule, self.columns.value, most)

    def _multiple(self, candidate: Candidate) -> ir.Value | bool:
        """Rows that follow each other without gaps need not be whole vectors."""
        tile = candidate.tile
        if self.strict and tile.mode == SHIFTED:
            return False
        if tile.width == 1 or not (candidate.multiple or self.strict):
            return True
        return places.whole(self.wide, self.job.space, tile.width)

    def _fits(self, tile: Tile) -> ir.Value | bool:
        """Asks the device, unless every one has enough or none has."""
        over = self.job.shared(tile) + 256 + 2 * tile.width * self.row_bytes
        if self.columns.static is not None:
            need = over + -(-self.columns.static // tile.cluster) * self.row_bytes
            if need <= SHARED_LIMIT or need > _MOST_SHARED:
                return need <= SHARED_LIMIT
            return self._compare(arith.CmpIPredicate.uge, rtcalls.shared_limit(), need)
        left = arith.SubIOp(rtcalls.shared_limit(), rtcalls.index(over)).result
        part = arith.CeilDivUIOp(self.columns.value, rtcalls.index(tile.cluster)).result
        need_ = arith.MulIOp(part, rtcalls.index(self.row_bytes)).result
        return arith.CmpIOp(arith.CmpIPredicate.ule, need_, left).result

    def _worth(self, tile: Tile) -> ir.Value | bool:
        """Blocks share rows that one has no room for, and few rows that are long."""
        alone = self._fits(replace(tile, cluster=1))
        few = _both(self._few(slices.MANY_ROWS), self._least(slices.LONG))
        if alone is False or few is True:
            return True
        if alone is True:
            return few
        true = arith.ConstantOp(ir.IntegerType.get_signless(1), 1).result
        crowded = arith.XOrIOp(alone, true).result
        return crowded if few is False else arith.OrIOp(crowded, few).result

    @staticmethod
    def _compare(predicate: arith.CmpIPredicate, value: ir.Value, number: int) -> ir.Value:
        return arith.CmpIOp(predicate, value, rtcalls.index(number)).result


def _both(one: ir.Value | bool, other: ir.Value | bool) -> ir.Value | bool:
    if one is False or other is False:
        return False
    if one is True or other is True:
        return other if one is True else one
    return arith.AndIOp(one, other).result
