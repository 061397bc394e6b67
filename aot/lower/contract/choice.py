"""Which units compute a problem: by its types, and by the images that the package holds.

In: a Problem at the insertion point of its launch. Out: launches, in branches of host code where several may run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from aot.arch import Capability
from aot.lower import rtcalls
from aot.lower.contract import (
    epilogue,
    extents,
    ffma,
    matvec,
    problem,
    splitting,
    tensorcores,
    tiles,
)
from aot.lower.contract.contraction import Contraction
from aot.lower.contract.problem import Problem
from aot.lower.contract.splitting import Split, Wish

_SUMS = frozenset({"f32", "f64", "i32", "i64"})
AMPERE, HOPPER = (8, 0), (9, 0)


@dataclass(frozen=True)
class Images:
    """What the kernels are compiled for."""

    capabilities: tuple[Capability, ...] = ()
    """Of all images; empty where that is not known, and of no consequence."""

    def least(self, capability: Capability) -> bool | None:
        """Whether all images have at least this capability; None: some."""
        found = {each >= capability for each in self.capabilities}
        return None if len(found) > 1 else found != {False}

    def some(self, capability: Capability) -> bool:
        """Whether an image is known to be for exactly this capability."""
        return capability in self.capabilities


def covers(contraction: Contraction, images: Images) -> bool:
    """Whether a kernel has sums of the type: narrower ones keep their order, which the general schedule does."""
    if str(ir.MemRefType(contraction.out.value.type).element_type) not in _SUMS:
        return False
    return not contraction.left.windows or (images.least(AMPERE) is True and tensorcores.convolves(contraction))


def launch(job: Problem, images: Images) -> None:
    """Emit the launches at the insertion point."""
    kind, served = tensorcores.kind_of(job), images.least(AMPERE)
    hopper = images.some(HOPPER)
    if kind is None or served is False:
        _on_ordinary_units(job)
    elif served:
        tensorcores.launch(job, kind, "", hopper=hopper)
    else:
        tiles.either(
            rtcalls.serves("sm_80"),
            lambda: tensorcores.launch(job, kind, "sm_80", hopper=hopper),
            lambda: _on_ordinary_units(job),
        )


def _on_ordinary_units(job: Problem) -> None:
    width = epilogue.width(job.epilogue)
    wide = extents.whole_vectors(job, width)
    sides = (extents.is_wide(job, job.left, job.m), extents.is_wide(job, job.right, job.n))
    aligned = problem.all_of([*sides, wide])
    large, small = ((128, 16), (64, 16)) if rtcalls.storage_bytes(job.accumulator) == 4 else ((64, 8), (32, 8))
    many = extents.many_tiles(job, large[0], large[0])
    candidates = [
        (problem.all_of([aligned, many]), ffma.Tile(*large, wide=True, width=width), False),
        (aligned, ffma.Tile(*small, wide=True, width=width), True),
        (True, ffma.Tile(*large, wide=False, width=1), False),
    ]
    vectors = matvec.Shape.of(job).wish(job)
    wishes = [Wish(held, tile.side, tile.side, tile.depth, parts) for held, tile, parts in candidates]
    split = splitting.plan(job, [vectors, *wishes])
    emitters = [_emitter(job, tile, split if parts else None) for _, tile, parts in candidates]
    splitting.launch([vectors, *wishes], [lambda: matvec.launch(job, split), *emitters])
    splitting.combine(job, split, wide, width)


def _emitter(job: Problem, tile: ffma.Tile, split: Split | None) -> Callable[[], None]:
    return lambda: ffma.launch(job, tile, split)
