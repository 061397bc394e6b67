"""Times contenders in turn: CUDA graphs of many calls over rotating inputs.

In: callables by name, and the inputs of each call. Out: the median microseconds of one call, by name, and how far the
middle half of the rounds lies apart.

A contender is captured once, over several sets of arrays, more than the L2 cache holds where ``MOST_SETS`` of them
suffice; small arrays stay in the cache, as those of a program do that has just written them. Calls follow each other as
in a program, too: kernels that may begin before the one ahead has ended, as ours may on 9.0, do so. Every round replays
all graphs one after the other, each in an order of its own: at the power limit who follows a contender that takes less
power is up to 5 % faster. After ``LEAST_ROUNDS`` the clock stops as soon as all contenders are ``STEADY``.
"""

from __future__ import annotations

import os
import random
import statistics
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config
from kernels_case import Call, Case

ROTATED_BYTES = 256 << 20
MOST_SETS = 100
LEAST_ROUNDS, MOST_ROUNDS = 5, 11
STEADY = 0.01
ROUND_MICROSECONDS = 2000
"""That a contender is replayed for in a round, at least."""
COPY_GRAIN = 1024
COPY = "copy"


@dataclass(frozen=True)
class Timing:
    """Of one contender."""

    median: float
    spread: float
    """Distance of the quartiles, relative to the median."""


def set_up_compiler() -> None:
    """For ``torch.compile``: what a warm-up process compiled is found again; what it timed is not.

    Kernels with several configurations are timed at their first call. Beside other processes that would be wrong.
    """
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    torch._inductor.config.autotune_local_cache = False


def peers(case: Case, names: tuple[str, ...]) -> dict[str, Call]:
    """What else computes the case, of these; not yet compiled."""
    made = {name: case.peers[name]() for name in names if name in case.peers}
    return {name: call for name, call in made.items() if call is not None}


def measure(case: Case, ours: dict[str, Call], names: tuple[str, ...], device: str) -> dict[str, Timing]:
    """Times of ours, which take a destination, of the peers, and, where memory is the bound, of a copy."""
    count = min(MOST_SETS, max(2, -(-ROTATED_BYTES // case.bytes)))
    plain = [case.arrays(device) for _ in range(count)]
    given = [[*arrays, case.destination(device)] for arrays in plain]
    graphs = {name: _graph(call, given) for name, call in ours.items()}
    others = [case.for_peers(arrays) for arrays in plain]
    for name, call in peers(case, names).items():
        try:
            graphs[name] = _graph(call, others)
        except Exception as error:
            print(f"  {name} does not run: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    if not case.flops:
        graphs[COPY] = _copies(case.bytes, count, device)
    return _times(graphs, count)


def _copies(size: int, count: int, device: str) -> Any:
    """Copies that read and write so many bytes together."""
    # Copies of odd sizes are slow ones.
    floats = COPY_GRAIN * max(1, size // (8 * COPY_GRAIN))
    pairs = [[torch.empty(floats, device=device), torch.empty(floats, device=device)] for _ in range(count)]
    return _graph(lambda x, y: y.copy_(x), pairs)


def _graph(call: Call, sets: list[list[Any]]) -> Any:
    """One call for each set; results live as long as the graph, so that each has memory of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for arrays in sets[:2]:
            call(*arrays)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        graph.results = [call(*arrays) for arrays in sets]
    return graph


def _times(graphs: dict[str, Any], count: int) -> dict[str, Timing]:
    replays = {name: max(1, min(20, round(ROUND_MICROSECONDS / _replay(graph, 2)))) for name, graph in graphs.items()}
    found: dict[str, list[float]] = {name: [] for name in graphs}
    order, drawn = list(graphs), random.Random(0)
    for number in range(MOST_ROUNDS):
        drawn.shuffle(order)
        for name in order:
            found[name].append(_replay(graphs[name], replays[name]) / count)
        if number + 1 >= LEAST_ROUNDS and all(_timing(times).spread < STEADY for times in found.values()):
            break
    return {name: _timing(times) for name, times in found.items()}


def _replay(graph: Any, times: int) -> float:
    """Microseconds of a replay, after one that is not counted."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    for _ in range(times):
        graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1000 / times


def _timing(times: list[float]) -> Timing:
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(middle, (high - low) / middle)
