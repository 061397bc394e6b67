"""Attention of few queries on Hopper: as ``decode``, with keys and values that TMA brings.

In: two problems that belong together (``attention``), of at most 16 rows. Out: descriptors and launches; only sm_90a
images hold the first kernel.

One thread of a warp of its own copies tiles of keys and values, some thousand neighbouring bytes at a time, into a
ring; four warps share a tile's keys, and free its place when all of them have read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import gpu, nvvm, scf

from aot.lower.contract.attention import attentionpick, decodemerge, decodeparts, flash, flashcopies, flashwarp
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.decode import MOST_ROWS
from aot.lower.contract.attention.decodemerge import Merge
from aot.lower.contract.attention.decodeparts import Parts
from aot.lower.contract.attention.flashcopies import ELEMENT, Copies, Room, by_columns
from aot.lower.contract.attention.flashjob import Attention, boxed
from aot.lower.contract.attention.flashwarp import SIXTEEN, Address, Piece, Queries, Sizes, Warp
from aot.lower.contract.codegen import boxes, hopper, instructions
from aot.lower.contract.codegen.boxes import DEPTH, Boxes
from aot.lower.contract.codegen.hopper import ATOM, SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.tiles import Block, Told
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.wgmma.wgmmatile import MOST_SHARED
from aot.lower.gpumodule import imageneeds
from aot.lower.launches import branches
from aot.settings.wishes import HOPPER_DECODE

_WARPS = WARPGROUP // WARP
_THREADS = WARPGROUP + WARP
_TILE_BYTES = 16384
"""Of keys, or of values."""
_STAGES, _LEAST_STAGES = 3, 2
_STEP, _MOST_KEYS = SIXTEEN * _WARPS, 256
"""What keys of a tile are multiples of."""
_BARRIER = 8
_CHUNK = 8
"""Elements of 16 bytes."""


@dataclass(frozen=True)
class Layout:
    """A block's shared memory: stages of keys and values, queries, barriers; at the end what is merged."""

    depth: int
    width: int
    keys: int
    """Of a tile."""
    stages: int = _STAGES
    turned: bool = False
    """Keys lie below each other's elements."""

    @property
    def told(self) -> dict[str, int]:
        """Its sizes, for reports."""
        sizes = {"depth": self.depth, "width": self.width, "stages": self.stages, "threads": _THREADS}
        return {"rows": MOST_ROWS, "keys": self.keys, **sizes}

    @property
    def value(self) -> int:
        """Where values begin in a stage."""
        return (boxed(self.keys) * self.depth if self.turned else self.keys * boxed(self.depth)) * ELEMENT

    @property
    def stage(self) -> int:
        return self.value + self.keys * boxed(self.width) * ELEMENT

    @property
    def queries(self) -> Room:
        return Room(MOST_ROWS, self.depth, WARPGROUP)

    @property
    def barriers(self) -> int:
        return self.stages * self.stage + self.queries.bytes

    @property
    def bytes(self) -> int:
        end = self.barriers + 2 * self.stages * _BARRIER
        return max(end, decodemerge.Room(self.width, _WARPS).bytes) + ATOM


def layout_for(job: Attention, pick: Pick) -> Layout:
    """The layout for a job."""
    usual = Layout(job.depth, job.width, _TILE_BYTES // (boxed(max(job.depth, job.width)) * ELEMENT), turned=job.turned)
    return pick.with_keys(HOPPER_DECODE, usual, _STEP, _asked, lambda layout: layout.told)


def misfit(job: Attention, pick: Pick) -> str:
    """All that is wrong with the layout that the user wants."""
    layout, found = _asked(layout_for(job, Pick()), pick), []
    if layout.keys % _STEP or layout.keys > _MOST_KEYS:
        found.append(f"keys {layout.keys} is not possible; multiples of {_STEP} up to {_MOST_KEYS} are")
    elif layout.turned and DEPTH % (layout.keys // _WARPS):
        found.append(f"keys {layout.keys} is not possible for keys below each other's elements; 64, 128 and 256 are")
    if layout.stages < _LEAST_STAGES:
        found.append(f"stages {layout.stages} is not possible; at least {_LEAST_STAGES} are")
    sizes = {"keys": layout.keys, "stages": layout.stages}
    return "; ".join(found) or attentionpick.too_large(sizes, layout.bytes, MOST_SHARED)


def _asked(usual: Layout, pick: Pick) -> Layout:
    return replace(usual, keys=pick.size("keys", usual.keys), stages=pick.size("stages", usual.stages))


def launch(job: Attention, kind: Kind, pick: Pick) -> None:
    """Emit the launches at the insertion point: clusters, or blocks that leave their parts in memory."""
    layout = layout_for(job, pick)
    division = decodeparts.divide(job, layout.keys)

    def together() -> None:
        parts = decodeparts.together(job, decodeparts.divide_together(job, layout.keys))
        _launch(job, kind, layout, parts, ("cluster",))

    def apart() -> None:
        _launch(job, kind, layout, decodeparts.apart(job, division), ())

    branches.either(decodeparts.shares_clusters(job, division), together, apart)


def _launch(job: Attention, kind: Kind, layout: Layout, parts: Parts, remarks: tuple[str, ...]) -> None:
    keys = boxes.of_factor(job.scores.right, job.scores.n, job.scores, layout.keys, steps=job.depth)
    values = boxes.of_factor(job.output.right, job.output.n, job.output, layout.keys, steps=layout.keys)
    told = Told(HOPPER_DECODE, layout.told, remarks)
    with decodeparts.launch(job, parts, _THREADS, layout.bytes, told) as (block, part):
        imageneeds.mark(block.launch, flash.NEED)
        _Code(job, kind, layout, block, (parts, part)).emit(keys, values)
    parts.combine(job)


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Attention, kind: Kind, layout: Layout, block: Block, part: tuple[Parts, Word]) -> None:
        self.job, self.kind, self.layout, self.block, self.part = job, kind, layout, block, part
        self.keys = narrow(job.keys[1].value)
        self.base = hopper.shared_memory(ATOM)
        self.barriers = self.base + layout.barriers
        self.share = decodeparts.share(job, *part, layout.keys)

    def emit(self, keys: Boxes, values: Boxes) -> None:
        """All of it."""
        hopper.when(self.block.thread.equals(0), self._prepare)
        gpu.BarrierOp()
        consumes = self.block.thread.below(WARPGROUP)
        hopper.when(consumes, self._consume, lambda: self._produce(keys, values))

    def _full(self, slot: Word) -> Word:
        return self.barriers + slot * _BARRIER

    def _empty(self, slot: Word) -> Word:
        return self.barriers + (slot + self.layout.stages) * _BARRIER

    def _prepare(self) -> None:
        for slot in range(self.layout.stages):
            hopper.make_barrier(self._full(constant(slot)), 1)
            hopper.make_barrier(self._empty(constant(slot)), _WARPS)
        hopper.fence_made_barriers()

    def _produce(self, keys: Boxes, values: Boxes) -> None:
        hopper.when(self.block.thread.equals(WARPGROUP), lambda: self._copy_all(keys, values))

    def _copy_all(self, keys: Boxes, values: Boxes) -> None:
        batch = [narrow(each) for each in self.block.batch]
        loop = scf.ForOp(constant(0).value, self.share.turns.value, constant(1).value)
        with ir.InsertionPoint(loop.body):
            turn = Word(loop.induction_variable)
            slot = turn % self.layout.stages
            hopper.wait(self._empty(slot), (turn // self.layout.stages & 1) ^ 1)
            barrier, first = self._full(slot), self.share.begin + turn * self.layout.keys
            hopper.expect(barrier, constant(self.layout.stage))
            stage = self.base + slot * self.layout.stage
            for source, start, elements in ((keys, 0, self.job.depth), (values, self.layout.value, self.job.width)):
                turned = source is keys and self.layout.turned
                along, rows = (self.layout.keys, elements) if turned else (elements, self.layout.keys)
                for box in range(boxed(along) // DEPTH):
                    target = stage + (start + box * rows * SWIZZLE_ROW)
                    corner = (first + box * DEPTH, constant(0)) if turned else (constant(box * DEPTH), first)
                    hopper.load_tile(target, source.map, source.at(*corner, batch), barrier)
            scf.YieldOp([])

    def _consume(self) -> None:
        lane, warp = self.block.thread % WARP, self.block.thread // WARP
        queries = self.base + self.layout.stages * self.layout.stage
        Copies(self.layout.queries, self.job.scores.left, self.block.batch, self.block.thread, queries).begin(
            0, constant(0), self.block.m
        )
        instructions.commit()
        instructions.wait(0)
        self._sync()
        query_at = flashcopies.by_rows(queries, lane).padded(self.layout.queries.pitch)(0)
        left = flashwarp.held(query_at, 1, self.job.depth // SIXTEEN)
        layout, each = self.layout, self.layout.keys // _WARPS
        mine = self.base + warp * (each * SWIZZLE_ROW)
        self.key_at = self._columns(lane, warp) if layout.turned else by_columns(mine, lane).swizzled(layout.keys)
        self.value_at = flashcopies.by_rows(mine + self.layout.value, lane).swizzled(self.layout.keys)
        self.code = Warp(self.job, self.kind, Sizes(1, each), self.block.batch, (self.block.m, self.keys))
        self.lane, self.first = lane, self.share.begin + warp * each
        state = self._loop(constant(0), self.share.whole, self.code.start(), left, all_seen=True)
        (done,) = self._loop(self.share.whole, self.share.turns, state, left, all_seen=False)
        self._sync()
        Merge(self.job, self.block, self.part, _WARPS, self._sync).emit(done)

    def _columns(self, lane: Word, warp: Word) -> Callable[[Word | int], Address]:
        """Addresses of the warp's keys where they lie below each other: some columns of a box."""
        first = warp * (self.layout.keys // _WARPS)
        box = self.base + first // DEPTH * (self.job.depth * SWIZZLE_ROW)
        place = flashcopies.by_rows(box, lane)
        return replace(place, chunk=place.chunk + first % DEPTH // _CHUNK).swizzled(self.job.depth)

    def _sync(self) -> None:
        hopper.warpgroup_sync(constant(1))

    def _loop(
        self, first: Word, last: Word, state: list[Queries], left: flashwarp.Left, *, all_seen: bool
    ) -> list[Queries]:
        loop = scf.ForOp(first.value, last.value, constant(1).value, self.code.flat(state))
        with ir.InsertionPoint(loop.body):
            turn, mine = Word(loop.induction_variable), self.code.of(list(loop.inner_iter_args))
            slot = turn % self.layout.stages
            hopper.wait(self._full(slot), turn // self.layout.stages & 1)
            stage = slot * self.layout.stage
            totals = self.code.products(self.key_at(stage), left)
            piece = Piece(self.value_at(stage), self.first + turn * self.layout.keys)
            done = self.code.add(mine, totals, piece, flashwarp.lane_place(self.lane), all_seen=all_seen)
            nvvm.SyncWarpOp(constant(-1).value)
            hopper.when(self.lane.equals(0), lambda: hopper.arrive(self._empty(slot)))
            scf.YieldOp(self.code.flat(done))
        return self.code.of(list(loop.results))
