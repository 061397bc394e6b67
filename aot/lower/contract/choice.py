"""Which units compute a problem: by its types, and by the images that the package holds.

In: a Problem at the insertion point of its launch. Out: launches, in branches of host code where several may run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from aot.arch import Capability
from aot.lower import rtcalls
from aot.lower.contract import (
    epilogue,
    extents,
    ffma,
    kinds,
    matvec,
    splitting,
    tensorcores,
    tiles,
)
from aot.lower.contract.contraction import Contraction
from aot.lower.contract.instructions import Kind
from aot.lower.contract.problem import Problem
from aot.lower.contract.splitting import Split, Wish

_SUMS = frozenset({"f32", "f64", "i32", "i64"})
AMPERE, _ADA, HOPPER = (8, 0), (8, 9), (9, 0)
_SINGLE = (ffma.Tile(64, 128, 16, 2, 8, 16, 3), ffma.Tile(128, 128, 16, 2, 16, 8, 2))
"""Tiles for sums of 4 bytes, for few rows and for many."""
_DOUBLE = (ffma.Tile(32, 64, 16, 2, 8, 16, 4), ffma.Tile(64, 64, 16, 2, 16, 8, 3))
"""And for sums of 8 bytes."""


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
    if not contraction.left.windows:
        return True
    kind = tensorcores.convolved(contraction)
    return kind is not None and images.least(_since(kind)) is True


def _since(kind: Kind) -> Capability:
    """The first GPUs whose tensor cores multiply it."""
    return _ADA if kind.is_small_float else AMPERE


@dataclass(frozen=True)
class Units:
    """What may compute a problem."""

    since: Capability
    """The first GPUs that have them."""
    launch: Callable[[str], None]
    """Emits the launches of kernels; given the architecture that they need, empty where all images have it."""

    @property
    def name(self) -> str:
        """Of that architecture."""
        return f"sm_{self.since[0]}{self.since[1]}"


def launch(job: Problem, images: Images) -> None:
    """Emit the launches at the insertion point: on the best units, and on others for images that lack these."""
    _launch(_units(job, hopper=images.some(HOPPER)), job, images)


def _launch(units: Sequence[Units], job: Problem, images: Images) -> None:
    if not units:
        _on_ordinary_units(job, None)
        return
    best, *others = units
    served = images.least(best.since)
    if served:
        best.launch("")
    elif served is False:
        _launch(others, job, images)
    else:
        tiles.either(rtcalls.serves(best.name), lambda: best.launch(best.name), lambda: _launch(others, job, images))


def _units(job: Problem, *, hopper: bool) -> list[Units]:
    """The best ones first."""
    kind = kinds.of(job)
    if kind is None:
        return [Units(AMPERE, lambda need: _on_ordinary_units(job, need))]
    found = [_cores(job, kind, hopper=hopper)]
    return [*found, _cores(job, kinds.HALF, hopper=False)] if kind.is_small_float else found


def _cores(job: Problem, kind: Kind, *, hopper: bool) -> Units:
    return Units(_since(kind), lambda need: tensorcores.launch(job, kind, need, hopper=hopper))


def _on_ordinary_units(job: Problem, need: str | None) -> None:
    width = epilogue.width(job.epilogue)
    wide = extents.whole_vectors(job, width)
    work = ffma.Job(job, width, wide)
    few, many = _SINGLE if rtcalls.storage_bytes(job.accumulator) == 4 else _DOUBLE
    candidates = [(extents.at_most(job.m, few.rows), few), (True, many)]
    if need is None:
        # Registers hold parts of tiles, too, and have no room for many sums.
        candidates = [(True, few)]
    wishes = [matvec.Shape.of(job).wish(job)]
    wishes += [Wish(condition, *tile.extents, tile.depth, in_parts=True) for condition, tile in candidates]
    split = splitting.plan(job, wishes)
    kernels = [_emitter(work, tile, need, split) for _, tile in candidates]
    splitting.launch(wishes, [lambda: matvec.launch(job, split), *kernels])
    splitting.combine(job, split, wide, width)


def _emitter(job: ffma.Job, tile: ffma.Tile, need: str | None, split: Split | None) -> Callable[[], None]:
    return lambda: ffma.launch(job, tile, need, split)
