"""All timings of one function: its dimensions are found as for a comparison, then grown until it is worth timing.

In: the job, the package, a signature. Out: a TimedRow for each place.

>>> time_function(setup, signature)[0].gigabytes_s                               # doctest: +SKIP
412.3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aot.verifying import checks, cost, place, timing, values
from aot.verifying.checks import Setup
from aot.verifying.dims import Dims
from aot.verifying.job import TimedRow
from aot.verifying.place import Place
from aot.verifying.signature import TENSOR, Dim, Signature

ENOUGH_BYTES, ENOUGH_OPERATIONS = 1 << 25, 1 << 30
LARGEST = 1 << 22
"""Extent at which growing stops."""
START = 64


def time_function(setup: Setup, signature: Signature, bandwidth: Mapping[str, float]) -> tuple[TimedRow, ...]:
    """Rows of one function; a row without times says why."""
    places = [each for each in setup.places if each.runs(signature)]
    if not places:
        return (TimedRow(signature.full_name, note="it has no CPU code, and there is no GPU here"),)
    found = checks.find_dims(setup, signature)
    if found.refusal:
        note = f"no shapes were found that it accepts (give --dims): {found.refusal}"
        return (TimedRow(signature.full_name, note=note, failed=True),)
    extents = grown(signature, found)
    return tuple(_time(setup, signature, each, _Sized(found, extents), bandwidth[each.name]) for each in places)


@dataclass(frozen=True)
class _Sized:
    """Dimensions with the extents to time."""

    found: Dims
    extents: Mapping[Dim, int]


def grown(signature: Signature, found: Dims) -> dict[Dim, int]:
    """Extents for a timing: those that nobody fixed are doubled together until bytes or operations are enough."""
    free = {dim for members in found.classes for dim in members if not found.fixed & set(members)}
    extents = dict(found.extents)
    if not free or signature.level != TENSOR:
        return extents
    size = START
    extents |= dict.fromkeys(free, size)
    while size < LARGEST and not _enough(signature, extents):
        size *= 2
        extents |= dict.fromkeys(free, size)
    return extents


def _enough(signature: Signature, extents: Mapping[Dim, int]) -> bool:
    moved = sum(
        int(np.prod(values.shape_of(signature, number, extents), dtype=np.int64))
        * values.numpy_dtype(each.dtype).itemsize
        for number, each in enumerate(signature.parameters)
        if each.shape is not None
    )
    operations = cost.estimate(signature, extents, "operations") or 0
    return moved >= ENOUGH_BYTES or operations >= ENOUGH_OPERATIONS


def _time(setup: Setup, signature: Signature, where: Place, sized: _Sized, bandwidth: float) -> TimedRow:
    arguments = values.make(signature, checks.request(setup, signature, sized.extents, sized.found))
    shapes = checks.shapes_text(signature, arguments)
    function, loaded = setup.function(signature), where.load(signature, arguments)
    where.wait()
    try:
        samples = timing.sample(lambda: function(*loaded), where.wait)
    except checks.REFUSALS as error:
        return TimedRow(signature.full_name, shapes, where.name, note=f"refused: {error}", failed=True)
    read, written = (cost.estimate(signature, sized.extents, what) for what in ("read", "written"))
    operations = cost.estimate(signature, sized.extents, "operations")
    moved = None if read is None or written is None else (read + written) / samples.median
    return TimedRow(
        function=signature.full_name,
        shapes=shapes,
        place=where.name,
        cold_s=samples.cold,
        median_s=samples.median,
        best_s=samples.warm[0],
        spread=samples.spread,
        gigabytes_s=None if moved is None else moved / 1e9,
        gigaflops_s=None if not operations else operations / samples.median / 1e9,
        copy_share=None if moved is None else moved / bandwidth,
    )


def bandwidths(places: tuple[Place, ...]) -> dict[str, float]:
    """Measured copies: bytes per second, by place."""
    return {
        each.name: timing.copy_bandwidth_gpu(each.gpu)
        if isinstance(each, place.Device)
        else timing.copy_bandwidth_cpu()
        for each in places
    }
