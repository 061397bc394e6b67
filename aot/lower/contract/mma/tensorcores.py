"""Which tile of ``mma.sync`` computes a problem, and in how many parts.

In: a Problem whose factors tensor cores multiply. Out: its launches, chosen by host code where extents are known at
the call only: copies of factors that cannot be read as they are, the product, and the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from aot.lower.contract import packing, productwishes
from aot.lower.contract.codegen.instructions import CHUNK, Kind
from aot.lower.contract.codegen.operand import Operand
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.mma import mmasync
from aot.lower.contract.mma.mmasync import Job, Tile
from aot.lower.contract.products import epilogue, extents, kinds, problem, splitting
from aot.lower.contract.products.contraction import Contraction
from aot.lower.contract.products.problem import Factor, Problem, Window, all_of
from aot.lower.contract.products.splitting import Split, Wish
from aot.lower.contract.simt import matvec
from aot.lower.contract.wgmma import wgmmachoice, wgmmafit, wgmmaflow
from aot.lower.hostmodule import rtcalls

_FLAT = Tile(16, 128, 128, 16, 32, 5)
"""For few rows: memory bounds the product, and many copies are under way."""
_TILES = (
    (Tile(128, 256, 128, 64, 64, 3), 32),
    (Tile(128, 128, 128, 64, 64, 3), 17),
    (Tile(128, 64, 128, 64, 32, 3), 10),
    (Tile(64, 64, 128, 32, 32, 4), 6),
)
"""Largest first, and how long a block takes in comparison; the last one's sums may come in parts."""
_SMALL = _TILES[-1][0]
_SPREAD = ((Tile(128, 64, 128, 32, 32, 3), 10), _TILES[-1])
"""With more threads: for convolutions, where each holds the places of its rows, and for small floats in images for
GPUs whose mma.sync takes them apart in registers."""
EVERYWHERE = 99 * 1024
"""Bytes of shared memory that a block may have on every architecture from sm_80 on."""


def _is_copied(factor: Factor, kind: Kind) -> ir.Value | bool:
    """Whether asynchronous copies can read it; only fragments of two bytes can be transposed."""
    as_it_is = factor.has_address and rtcalls.storage_bytes(factor.element) == kind.bytes
    if not as_it_is or (factor.turned and kind.bytes != 2):
        return False
    return problem.is_wide(factor.memory, factor.strides)


@dataclass(frozen=True)
class Has:
    """What the GPUs have that images are for."""

    hopper: bool = False
    """Some have ``wgmma``, too."""
    clusters: bool | None = False
    """Clusters of blocks; None: some."""
    widening: bool = False
    """Some take small floats apart in registers for ``mma.sync``."""


def launch(job: Problem, kind: Kind, need: str, has: Has) -> None:
    """Emit the launches at the insertion point; ``need``: the architecture of images that hold them."""
    if job.window is not None:
        _convolution(job, job.window, kind, need, hopper=has.hopper)
        return
    small = kind.is_small_float
    rows = matvec.ways(job, has.clusters, converts=small, need=need if small else "")
    swapped = wgmmachoice.swapped(job) if has.hopper else []
    given = [
        packing.Given(factor, (job.batch, outer, job.k), _is_copied(factor, kind))
        for factor, outer in ((job.left, job.m), (job.right, job.n))
    ]
    flowing = wgmmaflow.offers(job) if has.hopper else []
    unread = problem.any_of([rows[-1].wish.condition, *(each.condition for each in (*swapped, *flowing))])
    packed = packing.packed(given, kind, unread)
    ready = replace(job, left=packed[0].factor, right=packed[1].factor)
    flat = Wish(extents.at_most(job.m, _FLAT.rows), *_shape(_FLAT, kind), in_parts=True)
    candidates = _SPREAD if has.widening and small else _TILES
    offers = [*swapped, *(wgmmachoice.offers(ready) if has.hopper and wgmmafit.covers(ready) else [])]
    wishes = [*_wishes(flowing), *(each.wish for each in rows), *_wishes(offers), flat]
    wishes += _by_time(job, kind, candidates)
    split = splitting.plan(job, wishes)
    work = _work(ready, kind)
    emitters: list[Callable[[], None]] = [each.launch for each in flowing]
    emitters += [partial(each.launch, split) for each in rows]
    emitters += [each.launch for each in offers]
    emitters += [_emitter(work, tile, need, split) for tile in (_FLAT, *(each for each, _ in candidates))]
    splitting.launch(wishes, emitters)
    splitting.combine(job, split, work.wide, work.width)
    for each in packed:
        each.free()


def _wishes(offers: Sequence[wgmmachoice.Offer]) -> list[Wish]:
    """That kernels of ``wgmma`` run, which do not leave parts of sums."""
    return [Wish(each.condition, 1, 1, 1, in_parts=False) for each in offers]


def _work(job: Problem, kind: Kind, window: Window | None = None) -> Job:
    """What the kernels of ``mma.sync`` take."""
    width = epilogue.width(job.epilogue)
    left, right = Operand.of(job.left, window), Operand.of(job.right)
    return Job(job, kind, left, right, width, extents.whole_vectors(job, width))


def convolved(contraction: Contraction) -> Kind | None:
    """What is multiplied if windows over the left operand can be copied: whole chunks of a pixel's elements."""
    kind, left = kinds.of_contraction(contraction), ir.MemRefType(contraction.left.value.type)
    if kind is None:
        return None
    plain = left == ir.MemRefType.get(left.shape, left.element_type)
    last = contraction.left.windows[-1]
    alone = last == ((contraction.k[-1], 1),)
    whole = left.shape[-1] > 0 and left.shape[-1] * kind.bytes % CHUNK == 0
    return kind if plain and alone and whole else None


def _convolution(job: Problem, window: Window, kind: Kind, need: str, *, hopper: bool) -> None:
    """A product whose left factor is gathered by the copies: no tile holds more of its places than registers do."""
    sides = ((job.left, ((), window.pixels, window.k[-1][0])), (job.right, ((), job.n, job.k)))
    packed = packing.packed([packing.Given(*each, _is_copied(each[0], kind)) for each in sides], kind)
    ready = replace(job, left=packed[0].factor, right=packed[1].factor)
    work = _work(ready, kind, window)
    wishes = _by_time(job, kind, _SPREAD)
    emitters = [_emitter(work, tile, need, None) for tile, _ in _SPREAD]
    if hopper and wgmmafit.covers(ready):
        offers = wgmmachoice.offers(ready)
        wishes[:0] = _wishes(offers)
        emitters[:0] = [each.launch for each in offers]
    splitting.launch(wishes, emitters)
    for each in packed:
        each.free()


def _shape(tile: Tile, kind: Kind) -> tuple[int, int, int]:
    return tile.rows, tile.columns, tile.depth_bytes // kind.bytes


def _by_time(job: Problem, kind: Kind, candidates: Sequence[tuple[Tile, int]]) -> list[Wish]:
    """Each tile if none after it is faster: by the rounds of blocks that fill the GPU, and the time of a block."""
    found: list[Wish] = []
    best: Word | int | None = None
    extents_of = [(tile.rows, tile.columns) for tile, _ in candidates]
    for tile, time in reversed(candidates):
        if not productwishes.is_left(job.asked, tile.rows, tile.columns, extents_of):
            found.insert(0, Wish(False, *_shape(tile, kind), in_parts=False))
            continue
        mine = extents.rounds(job, tile.rows, tile.columns, time)
        fits = tile.shared_bytes <= EVERYWHERE or extents.has_shared(tile.shared_bytes)
        condition = True if best is None else all_of([extents.no_more(mine, best), fits])
        found.insert(0, Wish(condition, *_shape(tile, kind), in_parts=tile is _SMALL))
        best = mine if best is None else extents.least(mine, best)
    return found


def _emitter(work: Job, tile: Tile, need: str, split: Split | None) -> Callable[[], None]:
    return lambda: mmasync.launch(work, tile, need, split if tile in (_FLAT, _SMALL) else None)
