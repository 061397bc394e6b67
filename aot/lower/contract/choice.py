"""Which units compute a problem: by its types, and by the images that the package holds.

In: a Problem at the insertion point of its launch. Out: launches, in branches of host code where several may run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.mma import dmmachoice, tensorcores
from aot.lower.contract.mma.tensorcores import Has
from aot.lower.contract.products import epilogue, extents, kinds, splitting
from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.products.splitting import Wish
from aot.lower.contract.simt import ffma, matvec, numbercopies, registertile
from aot.lower.contract.simt.matvec import Way
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches
from aot.targets.arch import Capability

_SUMS = frozenset({"f32", "f64", "i32", "i64"})
AMPERE, _ADA, HOPPER = (8, 0), (8, 9), (9, 0)
_SINGLE = (ffma.Tile(64, 128, 8, 16, 3), ffma.Tile(128, 128, 16, 16, 2))
"""Tiles for sums of 4 bytes, for few rows and for many."""
_DOUBLE = (ffma.Tile(32, 64, 8, 16, 4), ffma.Tile(64, 64, 16, 8, 3))
"""And for sums of 8 bytes."""
_WIDENING = (HOPPER, (10, 0), (10, 3))
"""GPUs whose ``mma.sync`` takes small floats apart in registers."""
_DOUBLES = frozenset({(8, 0), (9, 0), (10, 0)})
"""GPUs whose tensor cores are faster in f64 than their other units."""


@dataclass(frozen=True)
class Images:
    """What the kernels are compiled for."""

    capabilities: tuple[Capability, ...] = ()
    """Of all images; empty where that is not known, and of no consequence."""

    def least(self, capability: Capability) -> bool | None:
        """Whether all images have at least this capability; None: some."""
        found = {each >= capability for each in self.capabilities}
        return None if len(found) > 1 else found != {False}

    @property
    def have_clusters(self) -> bool | None:
        """Whether all images are for GPUs that have clusters of blocks; None: some. Not where none is known."""
        return self.least(HOPPER) if self.capabilities else False

    def some(self, *capabilities: Capability) -> bool:
        """Whether an image is known to be for exactly one of these capabilities."""
        return not set(capabilities).isdisjoint(self.capabilities)

    def any_of(self, capabilities: frozenset[Capability]) -> bool:
        """Whether an image may be for one of these."""
        return not self.capabilities or not capabilities.isdisjoint(self.capabilities)


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
    _launch(_units(job, images), job, images)


def _launch(units: Sequence[Units], job: Problem, images: Images) -> None:
    if not units:
        _on_ordinary_units(job, None, images)
        return
    best, *others = units
    served = images.least(best.since)
    if served:
        best.launch("")
    elif served is False:
        _launch(others, job, images)
    else:
        branches.either(rtcalls.serves(best.name), lambda: best.launch(best.name), lambda: _launch(others, job, images))


def _units(job: Problem, images: Images) -> list[Units]:
    """The best ones first."""
    kind = kinds.of(job)
    if kind is None:
        return [Units(AMPERE, lambda need: _on_ordinary_units(job, need, images))]
    has = Has(images.some(HOPPER), images.have_clusters, images.some(*_WIDENING))
    found = [_cores(job, kind, has)]
    return [*found, _cores(job, kinds.HALF, replace(has, hopper=False))] if kind.is_small_float else found


def _cores(job: Problem, kind: Kind, has: Has) -> Units:
    return Units(_since(kind), lambda need: tensorcores.launch(job, kind, need, has))


def _on_ordinary_units(job: Problem, need: str | None, images: Images) -> None:
    width = epilogue.width(job.epilogue)
    wide = extents.whole_vectors(job, width)
    ways = matvec.ways(job, images.have_clusters) + _ways(registertile.Job(job, width, wide), need, images)
    wishes = [each.wish for each in ways]
    split = splitting.plan(job, wishes)
    splitting.launch(wishes, [partial(each.launch, split) for each in ways])
    splitting.combine(job, split, wide, width)


def _ways(job: registertile.Job, need: str | None, images: Images) -> list[Way]:
    """Kernels that read numbers one by one, the best first; the last one always runs."""
    problem = job.problem
    few, many = _SINGLE if rtcalls.storage_bytes(problem.accumulator) == 4 else _DOUBLE
    turned = [each for each in problem.factors if each.turned]
    job = replace(job, vectors=need is not None and numbercopies.have_vectors(turned))

    def plain(condition: ir.Value | bool, tile: ffma.Tile) -> Way:
        wish = Wish(condition, *tile.extents, tile.depth, in_parts=True)
        return Way(wish, partial(ffma.launch, job, tile, need))

    if need is None:
        # Registers hold parts of tiles, too.
        return [plain(True, replace(few, blocks=2))]
    found = [plain(extents.at_most(problem.m, few.rows), few), plain(True, many)]
    if isinstance(problem.accumulator, ir.F64Type) and images.any_of(_DOUBLES):
        found[1:1] = dmmachoice.ways(job, need, images.least)
    return found
