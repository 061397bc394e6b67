"""Functions that should do the same, against each other: are results those of the first one, and how fast is each?

In: a Setup, functions with one signature, extents. Out: Tried, for one function after the other; then, for those that
may be the fastest, seconds per call. Calls take turns in rounds, so that clocks and neighbours treat all alike.

>>> rounds(setup, functions, sizes, tell)[0]                                     # doctest: +SKIP
(1.2e-05, 1.1e-05)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from aot.verifying import checks, place, timing, values
from aot.verifying.checks import Case, Setup
from aot.verifying.job import Sizes, Tried
from aot.verifying.place import Outcome, Place
from aot.verifying.shapes import Shape
from aot.verifying.signature import Dim, Signature

ROUNDS, FEWEST = 21, 3
BATCH_S = 0.004
"""Seconds that the calls of a function take in one round, at least."""
ROUGH = 3
"""Batches of a rough timing, the best of which counts."""
SLOW_S = 0.1
"""Calls that take longer are timed roughly by one of them."""


def tryer(setup: Setup, first: Signature, sizes: Sizes) -> Callable[[Signature], Tried]:
    """Compares functions with ``first``, at the given extents, and times those that agree with it."""

    arguments = _arguments(setup, first, sizes)

    @functools.cache
    def expected() -> Outcome:
        return _outcome(setup, _case(first, sizes, arguments))

    def tried(signature: Signature) -> Tried:
        case = _case(signature, sizes, arguments)
        try:
            got = _outcome(setup, case)
        except checks.REFUSALS as error:
            return Tried(f"refused: {checks.refusal(setup, error)}")
        value, worst = checks.farthest(setup, case, got, expected())
        if not worst.ok:
            return Tried(f"wrong: {value}[{worst.where}] is {worst.got}, not {worst.expected}")
        return Tried(seconds=_roughly(_call(setup, signature, arguments), _where(setup)))

    return tried


def _roughly(call: Callable[[], Any], where: Place) -> float:
    """Seconds of a call."""
    once = timing.timed(call, where.wait, 1)
    if once > SLOW_S:
        return once
    batch = _batch(call, where)
    return min(timing.timed(call, where.wait, batch) / batch for _ in range(ROUGH))


def _batch(call: Callable[[], Any], where: Place) -> int:
    """How many calls are long enough for the clock; the first ones, which load the code, tell nothing."""
    count = 1
    timing.timed(call, where.wait, 1)
    while timing.timed(call, where.wait, count) < BATCH_S and count < timing.MOST_CALLS:
        count *= 2
    return count


def rounds(
    setup: Setup, functions: Sequence[Signature], sizes: Sizes, turn: Callable[[int, str], None]
) -> tuple[tuple[float, ...], ...]:
    """Seconds per call of all functions, for each round; ``turn`` is told whose turn it is.

    There are at least FEWEST rounds, and no more when the job's seconds have passed.
    """
    start = time.monotonic()
    where, arguments = _where(setup), _arguments(setup, functions[0], sizes)
    calls, batches = [], []
    for number, signature in enumerate(functions):
        turn(number, "begins")
        calls.append(_call(setup, signature, arguments))
        batches.append(_batch(calls[-1], where))
    found: list[tuple[float, ...]] = []
    while len(found) < ROUNDS and (len(found) < FEWEST or time.monotonic() - start < setup.job.seconds):
        seconds = dict.fromkeys(range(len(calls)), 0.0)
        for step in range(len(calls)):
            number = (len(found) + step) % len(calls)
            turn(number, str(len(found)))
            seconds[number] = timing.timed(calls[number], where.wait, batches[number]) / batches[number]
        found.append(tuple(seconds.values()))
    return tuple(found)


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
    where = _where(setup)
    return place.bound(where, setup.function(signature), signature, where.load(signature, arguments))
