"""Which problems ``wgmma`` can compute: by types when the package is built, by addresses and extents at the call.

In: a Problem at the insertion point of its launch. Out: whether its types fit; a condition of host code for the rest.

TMA wants addresses and strides that are multiples of 16 bytes, and no extent that is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.codegen import boxes
from aot.lower.contract.products import kinds, problem
from aot.lower.contract.products.epilogue import Array
from aot.lower.contract.products.problem import Factor, Problem, Window
from aot.lower.contract.wgmma import wgmma
from aot.lower.fast.regions.places import Extent
from aot.lower.hostmodule import rtcalls

_FARTHEST, _LONGEST_STEP = {3: 32768, 4: 128, 5: 16}, 8
"""What walks over pixels are limited to: elements that a filter reaches over, by the number of axes, and steps from
window to window."""
_WORD = 4
_RESULTS = frozenset({"f16", "bf16", "f32", "i32"})


def covers(job: Problem) -> bool:
    """Whether there is a kernel for the types and layouts."""
    kind = kinds.of(job)
    if kind is None or not all(factor.along_k or (factor.turned and kind.bytes == 2) for factor in job.factors):
        return False
    if job.window is not None and not (kind.bytes == 2 and _is_walked(job.window)):
        return False
    return all(2 + len(boxes.kept(factor.batch)) <= boxes.MOST_AXES for factor in job.factors)


def takes_from_registers(job: Problem) -> bool:
    """The same where the left factor must come through registers, and may: it is turned, and of four bytes."""
    kind = kinds.of(job)
    if kind is None or kind.bytes != _WORD or job.window is not None:
        return False
    few_axes = all(2 + len(boxes.kept(factor.batch)) <= boxes.MOST_AXES for factor in job.factors)
    return job.left.turned and job.right.along_k and few_axes


def _is_walked(window: Window) -> bool:
    """Whether one copy takes the windows of neighbouring results, as ``m`` counts them: pixels of whole stages.

    The loops of ``m`` move the array's indices in their order, and those of the filter all but the first and the last.
    """
    moved, filters = window.places
    steps, sizes = dict(moved), [extent.static for extent, _ in window.k[:-1]]
    channels = window.k[-1][0].static
    if not channels or channels % boxes.DEPTH or len(window.axes) not in _FARTHEST:
        return False
    if [axis for axis, _ in moved] != list(range(len(window.axes) - 1)) or steps[0] != 1:
        return False
    farthest = _FARTHEST[len(window.axes)]
    reached = [0 if size is None else (size - 1) * by for size, (_, by) in zip(sizes, filters, strict=False)]
    inside = all(axis > 0 for axis, _ in filters[:-1]) and len({axis for axis, _ in filters}) == len(filters)
    return inside and None not in sizes and max([0, *reached]) <= farthest and max(steps.values()) <= _LONGEST_STEP


def can_stage(job: Problem) -> bool:
    """Whether TMA can store the one result."""
    if len(job.epilogue.stores) != 1:
        return False
    array = job.epilogue.stores[0][0]
    element = str(ir.MemRefType(array.memory.type).element_type)
    return array.along_n and element in _RESULTS and 2 + len(boxes.kept(array.strides[:-2])) <= boxes.MOST_AXES


def condition(job: Problem) -> ir.Value | bool:
    """Whether the kernel may run, all things known at the call considered."""
    served: ir.Value | bool = rtcalls.serves(wgmma.NEED)
    return problem.all_of([served, *_extents(job), *(fits_factor(each) for each in job.factors)])


def has_pairs(job: Problem, arrays: Sequence[Array]) -> ir.Value | bool:
    """Whether rows of arrays of the epilogue are aligned, and hold whole pairs of elements."""
    return problem.all_of([problem.is_multiple(job.n, 2), *(_fits_array(each) for each in arrays if each.along_n)])


def _extents(job: Problem) -> list[ir.Value | bool]:
    return [is_positive(each) for each in (job.m, job.n, job.k, *job.batch)]


def is_positive(extent: Extent) -> ir.Value | bool:
    """Whether an extent is not 0."""
    return extent.static > 0 if extent.static is not None else _positive(extent.value)


def _positive(value: ir.Value) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.sgt, value, rtcalls.index(0)).result


def fits_factor(factor: Factor) -> ir.Value | bool:
    """Whether TMA can read it."""
    if not factor.has_address:
        return False
    return problem.all_of([problem.is_wide(factor.memory, factor.strides), *_ahead(factor.strides)])


def _fits_array(array: Array) -> ir.Value | bool:
    return problem.all_of([problem.is_wide(array.memory, array.strides), *_ahead(array.strides)])


def _ahead(strides: Sequence[Extent]) -> list[ir.Value | bool]:
    """Strides that only the call knows may be 0, or go backwards."""
    return [_positive(each.value) for each in strides if each.static is None]
