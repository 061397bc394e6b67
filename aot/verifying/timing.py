"""Times of one function: the first call, many warm ones, and what they move and compute.

In: a place, a function, arguments. Out: Timing.

Warm calls are timed in batches that are long enough for the clock; with a GPU each batch ends when the GPU has
finished. So a time is what a caller sees who makes call after call.

>>> time_function(setup, signature).median_s                                     # doctest: +SKIP
1.2e-05
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aot.verifying.cudamemory import Gpu

BATCH_S, BATCHES = 0.005, 20
"""A batch lasts at least that many seconds; so many of them."""
MOST_CALLS = 10_000
COPY_BYTES = 1 << 28
COPIES = 7


@dataclass(frozen=True)
class Samples:
    """Seconds."""

    cold: float
    """The first call of the process: it loads the code."""
    warm: tuple[float, ...]
    """Per call, one for each batch; sorted."""

    @property
    def median(self) -> float:
        return statistics.median(self.warm)

    @property
    def spread(self) -> float:
        """Distance of the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.warm, n=4)
        return (high - low) / self.median


def sample(call: Callable[[], object], wait: Callable[[], None], seconds: float = 0.5) -> Samples:
    """Times a call; ``seconds`` is about what the warm calls may take together."""
    cold = timed(call, wait, 1)
    once = min(timed(call, wait, 1) for _ in range(2))
    batch = max(1, min(MOST_CALLS, int(BATCH_S / max(once, 1e-9))))
    batches = max(3, min(BATCHES, int(seconds / max(once * batch, 1e-9))))
    return Samples(cold, tuple(sorted(timed(call, wait, batch) / batch for _ in range(batches))))


def copy_bandwidth_cpu() -> float:
    """Bytes per second that numpy's copy reads and writes, in one thread."""
    source = np.ones(COPY_BYTES // 16, "f4")
    target = np.empty_like(source)
    times = [timed(lambda: np.copyto(target, source), _nothing, 1) for _ in range(COPIES)]
    return 2 * source.nbytes / min(times)


def copy_bandwidth_gpu(gpu: Gpu) -> float:
    """Bytes per second that the driver's copy inside the GPU's memory reads and writes."""
    source, target = gpu.allocate(COPY_BYTES), gpu.allocate(COPY_BYTES)
    try:
        times = [timed(lambda: gpu.copy(target, source, COPY_BYTES), gpu.synchronize, 1) for _ in range(COPIES)]
    finally:
        gpu.free(source)
        gpu.free(target)
    return 2 * COPY_BYTES / min(times)


def timed(call: Callable[[], object], wait: Callable[[], None], count: int) -> float:
    """Seconds of so many calls, until all work is done."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return time.perf_counter() - start


def _nothing() -> None:
    """Work on the CPU is done when the call returns."""
