"""Functions that should do the same, against each other: are results those of the first one, and how fast is each?

In: a Setup, functions with one signature, extents. Out: RaceReports, and seconds per call. Calls take turns in rounds,
so that clocks and neighbours treat all alike.

>>> seconds(setup, functions, sizes)                                             # doctest: +SKIP
(1.2e-05, 1.1e-05)
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from aot.verifying import checks, place, timing, values
from aot.verifying.checks import Case, Setup
from aot.verifying.job import RaceReport, Sizes
from aot.verifying.place import Outcome, Place
from aot.verifying.shapes import Shape
from aot.verifying.signature import Dim, Signature

ROUNDS = 15
BATCH_S = 0.004
"""Seconds that the calls of a function take in one round, at least."""


def checker(setup: Setup, first: Signature, sizes: Sizes) -> Callable[[Signature], RaceReport]:
    """Compares functions with ``first``, at the given extents."""

    arguments = _arguments(setup, first, sizes)

    @functools.cache
    def expected() -> Outcome:
        return _outcome(setup, _case(first, sizes, arguments))

    def check(signature: Signature) -> RaceReport:
        case = _case(signature, sizes, arguments)
        try:
            got = _outcome(setup, case)
        except checks.REFUSALS as error:
            return RaceReport(f"refused: {checks.refusal(setup, error)}")
        value, worst = checks.farthest(setup, case, got, expected())
        return RaceReport("" if worst.ok else f"wrong: {value}[{worst.where}] is {worst.got}, not {worst.expected}")

    return check


def seconds(setup: Setup, functions: Sequence[Signature], sizes: Sizes) -> tuple[float, ...]:
    """Medians, per call."""
    where, arguments = _where(setup), _arguments(setup, functions[0], sizes)
    calls = [_call(setup, each, arguments) for each in functions]
    for call in calls:
        timing.timed(call, where.wait, 2)
    batches = [
        max(1, min(timing.MOST_CALLS, int(BATCH_S / max(timing.timed(call, where.wait, 3) / 3, 1e-9))))
        for call in calls
    ]
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS):
        for step in range(len(calls)):
            number = (turn + step) % len(calls)
            samples[number].append(timing.timed(calls[number], where.wait, batches[number]) / batches[number])
    return tuple(map(statistics.median, samples))


def _where(setup: Setup) -> Place:
    """The GPU, if there is one."""
    return setup.places[-1]


def _arguments(setup: Setup, first: Signature, sizes: Sizes) -> tuple[Any, ...]:
    """The same for all: random numbers depend on the function's name."""
    letters = dict(zip(first.dims(), sizes.letters, strict=True))
    return values.make(first, checks.request(setup, first, _extents(first, sizes), letters))


def _extents(signature: Signature, sizes: Sizes) -> dict[Dim, int]:
    return dict(zip(signature.dims(), sizes.extents, strict=True))


def _case(signature: Signature, sizes: Sizes, arguments: tuple[Any, ...]) -> Case:
    return Case(signature, Shape("given", _extents(signature, sizes), edge=False), arguments)


def _outcome(setup: Setup, case: Case) -> Outcome:
    return place.call(_where(setup), setup.function(case.signature), case.signature, case.arguments)


def _call(setup: Setup, signature: Signature, arguments: tuple[Any, ...]) -> Callable[[], Any]:
    function = setup.function(signature)
    loaded = _where(setup).load(signature, arguments)
    return lambda: function(*loaded)
