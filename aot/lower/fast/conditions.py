"""Conditions of candidates, as host code: which tile may run is known when the function is called.

In: a job and a candidate. Out: True or False where that is known when it is compiled, else a value of host code.

>>> Conditions(job).of(candidate)                                             # doctest: +SKIP
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from aot.lower import rtcalls
from aot.lower.fast import places, slices
from aot.lower.fast.chunks import SHIFTED
from aot.lower.fast.rowjob import Job
from aot.lower.fast.table import Candidate

SHARED_LIMIT = 99 * 1024
"""Bytes of shared memory that a block may have on every architecture from sm_80 on."""
_MOST_SHARED = 227 * 1024
"""On any of them."""


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
        parts: list[ir.Value | bool] = [self._least(candidate), self._most(candidate), self._multiple(candidate)]
        if candidate.sliced:
            parts.append(self._few())
        if candidate.shared:
            parts.append(self._fits(candidate))
        if candidate.aligned:
            parts.append(self.aligned)
        if any(part is False for part in parts):
            return False
        found = [part for part in parts if part is not True]
        total: ir.Value | bool = True
        for part in found:
            total = part if total is True else arith.AndIOp(total, part).result
        return total

    def _few(self) -> ir.Value | bool:
        rows_ = self.job.space.rows
        if rows_.static is not None:
            return rows_.static <= slices.MANY_ROWS
        return self._compare(arith.CmpIPredicate.ule, rows_.value, slices.MANY_ROWS)

    def _least(self, candidate: Candidate) -> ir.Value | bool:
        if not candidate.least:
            return True
        if self.columns.static is not None:
            return self.columns.static >= candidate.least
        return self._compare(arith.CmpIPredicate.uge, self.columns.value, candidate.least)

    def _most(self, candidate: Candidate) -> ir.Value | bool:
        if candidate.most is None:
            return True
        if self.columns.static is not None:
            return self.columns.static <= candidate.most
        return self._compare(arith.CmpIPredicate.ule, self.columns.value, candidate.most)

    def _multiple(self, candidate: Candidate) -> ir.Value | bool:
        """Rows that follow each other without gaps need not be whole vectors."""
        tile = candidate.tile
        if self.strict and tile.mode == SHIFTED:
            return False
        if tile.width == 1 or not (candidate.multiple or self.strict):
            return True
        return places.whole(self.wide, self.job.space, tile.width)

    def _fits(self, candidate: Candidate) -> ir.Value | bool:
        """Asks the device, unless every one has enough or none has."""
        over = self.job.scratch() + 256 + 2 * candidate.tile.width * self.row_bytes
        if self.columns.static is not None:
            need = over + self.columns.static * self.row_bytes
            if need <= SHARED_LIMIT or need > _MOST_SHARED:
                return need <= SHARED_LIMIT
            return self._compare(arith.CmpIPredicate.uge, rtcalls.shared_limit(), need)
        left = arith.SubIOp(rtcalls.shared_limit(), rtcalls.index(over)).result
        need_ = arith.MulIOp(self.columns.value, rtcalls.index(self.row_bytes)).result
        return arith.CmpIOp(arith.CmpIPredicate.ule, need_, left).result

    @staticmethod
    def _compare(predicate: arith.CmpIPredicate, value: ir.Value, number: int) -> ir.Value:
        return arith.CmpIOp(predicate, value, rtcalls.index(number)).result
