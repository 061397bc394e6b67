"""Questions about a problem's extents: answered when the package is built if they are static, else by host code.

In: a Problem at the insertion point of its launch. Out: True, False, or a value.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products import problem
from aot.lower.contract.products.problem import Factor, Problem
from aot.lower.fast.regions.places import VECTOR_BYTES, Extent
from aot.lower.hostmodule import rtcalls

MULTIPROCESSORS = 132
"""Of a large GPU: where extents are static a tile is chosen when the package is built."""
Number = Word | int
"""Of host code, or known."""


def whole_vectors(job: Problem, width: int) -> ir.Value | bool:
    """Whether results, and what is read with them, are vectors of a width, aligned."""
    arrays = job.epilogue.arrays()
    wide = [problem.is_wide(each.memory, each.strides) for each in arrays if each.along_n]
    return problem.all_of([problem.is_multiple(job.n, width), *wide])


def rounds(job: Problem, rows: int, columns: int, weight: int) -> Number:
    """Rounds in which all multiprocessors take a tile each, times a weight."""
    sides = ((job.m, rows), (job.n, columns), *((each, 1) for each in job.batch))
    if all(each.static is not None for each, _ in sides):
        return -(-math.prod(-(-(each.static or 0) // size) for each, size in sides) // MULTIPROCESSORS) * weight
    count = Word(rtcalls.index(1))
    for each, size in sides:
        count = Word(each.value).tiles(size) * count
    return Word(arith.CeilDivUIOp(count.value, rtcalls.multiprocessors()).result) * weight


def at_once(job: Problem, rows: int, columns: int) -> ir.Value | bool:
    """Whether multiprocessors can take all tiles in one round."""
    found = rounds(job, rows, columns, 1)
    return no_more(found, 1 if isinstance(found, int) else Word(rtcalls.index(1)))


def no_more(one: Number, other: Number) -> ir.Value | bool:
    """Whether one is not larger than the other; both are of one kind."""
    if isinstance(one, int) or isinstance(other, int):
        assert isinstance(one, int)
        assert isinstance(other, int)
        return one <= other
    return arith.CmpIOp(arith.CmpIPredicate.ule, one.value, other.value).result


def least(one: Number, other: Number) -> Number:
    """The smaller one."""
    if isinstance(one, int) or isinstance(other, int):
        assert isinstance(one, int)
        assert isinstance(other, int)
        return min(one, other)
    return one.least(other)


def at_most(extent: Extent, number: int) -> ir.Value | bool:
    """Whether an extent is no larger."""
    if extent.static is not None:
        return extent.static <= number
    return arith.CmpIOp(arith.CmpIPredicate.ule, extent.value, rtcalls.index(number)).result


def at_least(extent: Extent, number: int) -> ir.Value | bool:
    """Whether an extent is no smaller."""
    if extent.static is not None:
        return extent.static >= number
    return arith.CmpIOp(arith.CmpIPredicate.uge, extent.value, rtcalls.index(number)).result


def has_shared(size: int) -> ir.Value:
    """Whether blocks of the GPU may have so many bytes of shared memory; a question of the call."""
    return arith.CmpIOp(arith.CmpIPredicate.uge, rtcalls.shared_limit(), rtcalls.index(size)).result


def is_wide(job: Problem, factor: Factor, outer: Extent) -> ir.Value | bool:
    """Whether vectors of a factor are aligned, and the contiguous loop ends with a whole one."""
    along = outer if factor.turned else job.k
    whole = problem.is_multiple(along, max(1, VECTOR_BYTES // rtcalls.storage_bytes(factor.element)))
    return problem.all_of([whole, problem.is_wide(factor.memory, factor.strides)])
