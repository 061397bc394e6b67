"""Kernels whose registers spill to memory: made again with smaller tiles, or told of.

In: a compiled source. Out: which kernels to drop from the schedules' candidates, and what to say.

A candidate's registers are known when ptxas has seen it, on every target. A source with spills is compiled again
after that: kernels that spilled on any of them get more room for registers, and if that does not help, another
candidate is taken. All images hold the same kernels, and the same source gives the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from aot.model import CompiledSource, Kernel, Usage
from aot.settings.wishes import Dropped
from aot.tiling import ATTENTION, CONTRACTIONS

ROUNDS = 6
"""Times that a source is compiled, at most."""


def without(compile_: Callable[[tuple[Dropped, ...]], CompiledSource]) -> CompiledSource:
    """The source without candidates that spill, as far as there are others."""
    dropped: tuple[Dropped, ...] = ()
    for _ in range(ROUNDS):
        compiled = compile_(dropped)
        more = droppable(compiled, dropped)
        if not more:
            break
        dropped += more
    return replace(compiled, remarks=(*compiled.remarks, *remarks(compiled, dropped)))


def droppable(compiled: CompiledSource, dropped: Sequence[Dropped]) -> tuple[Dropped, ...]:
    """Candidates that spilled, of which another one may be made, and that were not dropped before."""
    found = dict.fromkeys(
        Dropped(kernel.module, kernel.schedule, replace(kernel.tiling, grid=(), block=()))
        for kernel, _, _ in _spilled(compiled)
        if kernel.tiling is not None
    )
    return tuple(each for each in found if each not in dropped and _gives_way(each))


def _gives_way(spilled: Dropped) -> bool:
    """Whether there is something else: a product's tile can have room for registers, attention other tiles, too."""
    tiling = spilled.tiling
    return tiling.region > 0 or tiling.kind == ATTENTION or (tiling.kind == CONTRACTIONS and not spilled.is_final)


def remarks(compiled: CompiledSource, dropped: Sequence[Dropped]) -> Iterator[str]:
    """What was dropped, and what spills for all that."""
    for each in dropped:
        region = f"region {each.tiling.region}: " if each.tiling.region else ""
        what = f"{each.function}: {region}{each.schedule}: {each.tiling.text()}"
        yield f"{what}: its registers spilled, {'another one is taken' if each.is_final else 'it gets room for them'}"
    for kernel, target, usage in _spilled(compiled):
        yield f"{kernel.name}: {usage.spill_bytes} bytes of registers spill on {target}"


def _spilled(compiled: CompiledSource) -> list[tuple[Kernel, str, Usage]]:
    kernels = {kernel.symbol: kernel for kernel in compiled.kernels}
    usage = compiled.fatbin.usage if compiled.fatbin else ()
    return [(kernels[symbol], target, used) for symbol, target, used in usage if used.spill_bytes]
