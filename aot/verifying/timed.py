"""All timings of one function: its dimensions are found as for a comparison, then grown until it is worth timing.

In: the job, the package, a signature. Out: Sizes, and in another process, where nothing has been called yet, a
TimedRow for each place.

>>> time_function(setup, signature, sizes, measured).rows[0].gigabytes_s         # doctest: +SKIP
412.3
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aot.verifying import checks, cost, place, timing, values
from aot.verifying.checks import Setup
from aot.verifying.dims import Dims
from aot.verifying.job import Sizes, TimedReport, TimedRow
from aot.verifying.place import Place
from aot.verifying.signature import TENSOR, Dim, Signature

ENOUGH_BYTES, ENOUGH_OPERATIONS = 1 << 25, 1 << 30
LARGEST = 1 << 22
"""Extent at which growing stops."""
START = 64


def find_sizes(setup: Setup, signature: Signature) -> Sizes:
    """Extents that the function accepts and that are worth timing."""
    if not any(each.runs(signature) for each in setup.places):
        names = [each.name for each in setup.places]
        missing = signature.no_cpu if names == [place.CPU] else f"it has no {' or '.join(map(str.upper, names))} code"
        everywhere = not setup.job.where and place.GPU not in names
        return Sizes(note=f"{missing}, and there is no GPU here" if everywhere else missing)
    found = checks.find_dims(setup, signature)
    if found.refusal:
        return Sizes(note=f"no shapes were found that it accepts (give --dims): {found.refusal}", failed=True)
    extents = grown(signature, found)
    dims = signature.dims()
    return Sizes(tuple(extents[dim] for dim in dims), tuple(found.letters[dim] for dim in dims))


def time_function(setup: Setup, signature: Signature, sizes: Sizes, bandwidth: Mapping[str, float]) -> TimedReport:
    """Rows of one function; a row without times says why."""
    if sizes.note:
        return TimedReport((TimedRow(signature.full_name, note=sizes.note, failed=sizes.failed),))
    places = [each for each in setup.places if each.runs(signature)]
    return TimedReport(tuple(_time(setup, signature, each, sizes, bandwidth[each.name]) for each in places))


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
    moved += cost.estimate(signature, extents, "written") or 0
    return moved >= ENOUGH_BYTES or operations >= ENOUGH_OPERATIONS


def _time(setup: Setup, signature: Signature, where: Place, sizes: Sizes, bandwidth: float) -> TimedRow:
    extents = dict(zip(signature.dims(), sizes.extents, strict=True))
    letters = dict(zip(signature.dims(), sizes.letters, strict=True))
    arguments = values.make(signature, checks.request(setup, signature, extents, letters))
    shapes = checks.shapes_text(signature, arguments)
    call = place.bound(where, setup.function(signature), signature, where.load(signature, arguments))
    where.wait()
    try:
        samples = timing.sample(call, where.wait)
    except checks.REFUSALS as error:
        return TimedRow(
            signature.full_name, shapes, where.name, note=f"refused: {checks.refusal(setup, error)}", failed=True
        )
    read, written = (cost.estimate(signature, extents, what) for what in ("read", "written"))
    operations = cost.estimate(signature, extents, "operations")
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
