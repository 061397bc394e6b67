"""Attention of few queries by ``mma.sync``: blocks share the keys, and a second kernel puts their parts together.

In: two problems that belong together (``attention``), of at most 16 rows: queries, or all that read the same keys. Out:
launches; the second one only where there are several parts.

Memory bounds this work. So each warp of a block has keys and a ring of its own, and waits for nobody while it reads
them; at the end the block's warps add their sums up in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import gpu, nvvm, scf

from aot.lower.contract.attention import attentionpick, decodemerge, decodeparts, flashcopies, flashwarp
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.decodemerge import Merge
from aot.lower.contract.attention.decodeparts import Parts
from aot.lower.contract.attention.flashcopies import Copies, Room
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.flashwarp import SIXTEEN, Piece, Queries, Sizes, Warp
from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.tiles import Block, Told
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.mma.tensorcores import EVERYWHERE
from aot.lower.gpumodule import imageneeds
from aot.lower.launches import branches
from aot.settings.wishes import DECODE
from aot.targets.arch import WARP

MOST_ROWS = SIXTEEN
_STAGES, _MOST_KEYS = 2, 128


@dataclass(frozen=True)
class Tile:
    """How a block divides the work: its warps, and the keys of a warp's piece."""

    warps: int
    keys: int

    @property
    def threads(self) -> int:
        return self.warps * WARP

    @property
    def turn(self) -> int:
        """Keys that all warps read at a time."""
        return self.warps * self.keys


_TILES = ((64, Tile(4, 32)), (128, Tile(4, 16)), (256, Tile(2, 16)))
"""By the elements of a query or a value."""


def tile_for(job: Attention, pick: Pick) -> Tile:
    """The tile for a job."""
    usual = next(tile for most, tile in _TILES if max(job.depth, job.width) <= most)
    return pick.with_keys(DECODE, usual, SIXTEEN, _asked, lambda tile: _told(job, tile))


def misfit(job: Attention, pick: Pick) -> str:
    """What is wrong with the tile that the user wants."""
    tile = _asked(tile_for(job, Pick()), pick)
    if tile.keys % SIXTEEN or tile.keys > _MOST_KEYS:
        return f"keys {tile.keys} is not possible; multiples of {SIXTEEN} up to {_MOST_KEYS} are"
    return attentionpick.too_large({"keys": tile.keys}, _Layout(job, tile).bytes, EVERYWHERE)


def _asked(usual: Tile, pick: Pick) -> Tile:
    return replace(usual, keys=pick.size("keys", usual.keys))


def _told(job: Attention, tile: Tile) -> dict[str, int]:
    sizes = {"depth": job.depth, "width": job.width, "stages": _STAGES, "threads": tile.threads}
    return {"rows": MOST_ROWS, "keys": tile.keys, **sizes}


def launch(job: Attention, kind: Kind, need: str, pick: Pick) -> None:
    """Emit the launches at the insertion point; ``need``: the architecture of images that hold the first kernel."""
    tile = tile_for(job, pick)
    layout, parts = _Layout(job, tile), decodeparts.apart(job, decodeparts.divide(job, tile.turn))
    with decodeparts.launch(job, parts, tile.threads, layout.bytes, Told(DECODE, _told(job, tile))) as (block, part):
        if need:
            imageneeds.mark(block.launch, need)
        _Code(job, kind, layout, block, (parts, part)).emit()
    parts.combine(job)


class _Layout:
    """Rooms of a block's shared memory: queries, then each warp's ring; at the end what is merged."""

    def __init__(self, job: Attention, tile: Tile) -> None:
        self.tile = tile
        self.queries = Room(MOST_ROWS, job.depth, tile.threads)
        self.keys = flashcopies.keys_of(job, tile.keys, WARP)
        self.values = Room(tile.keys, job.width, WARP)
        self.stage = self.keys.bytes + self.values.bytes
        self.ring = _STAGES * self.stage
        self.bytes = max(self.queries.bytes + tile.warps * self.ring, decodemerge.Room(job.width, tile.warps).bytes)


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Attention, kind: Kind, layout: _Layout, block: Block, part: tuple[Parts, Word]) -> None:
        self.job, self.layout, self.tile, self.block, self.part = job, layout, layout.tile, block, part
        self.lane, self.warp = block.thread % WARP, block.thread // WARP
        self.keys = narrow(job.keys[1].value)
        base = instructions.shared_base()
        ring = base + self.warp * layout.ring + layout.queries.bytes
        self.query_copies = Copies(layout.queries, job.scores.left, block.batch, block.thread, base)
        self.copies = [
            flashcopies.key_copies(job, layout.keys, block.batch, self.lane, ring),
            Copies(layout.values, job.output.right, block.batch, self.lane, ring + layout.keys.bytes),
        ]
        self.query_at = flashcopies.by_rows(base, self.lane).padded(layout.queries.pitch)(0)
        self.key_at = flashcopies.key_places(job, ring, self.lane).padded(layout.keys.pitch)
        self.value_at = flashcopies.by_rows(ring + layout.keys.bytes, self.lane).padded(layout.values.pitch)
        self.code = Warp(job, kind, Sizes(1, self.tile.keys), block.batch, (block.m, self.keys))
        self.share = decodeparts.share(job, *part, self.tile.turn)

    def emit(self) -> None:
        """All of it."""
        self.query_copies.begin(0, constant(0), self.block.m)
        for stage in range(_STAGES - 1):
            self._copy(constant(stage))
        instructions.wait(_STAGES - 2)
        gpu.BarrierOp()
        left = flashwarp.held(self.query_at, 1, self.job.depth // SIXTEEN)
        state = self._loop(constant(0), self.share.whole, self.code.start(), left, all_seen=True)
        (queries,) = self._loop(self.share.whole, self.share.turns, state, left, all_seen=False)
        instructions.wait(0)
        gpu.BarrierOp()
        Merge(self.job, self.block, self.part, self.tile.warps, gpu.BarrierOp).emit(queries)

    def _first(self, turn: Word) -> Word:
        """The warp's first key in a turn."""
        return self.share.begin + (turn * self.tile.warps + self.warp) * self.tile.keys

    def _copy(self, turn: Word) -> None:
        """Begin to copy the warp's keys and values of a turn, if there is one; without it, too, it is a group."""
        with branches.guard(turn.below(self.share.turns)):
            for copies in self.copies:
                copies.begin(turn % _STAGES * self.layout.stage, self._first(turn), self.keys)
        instructions.commit()

    def _loop(
        self, first: Word, last: Word, state: list[Queries], left: flashwarp.Left, *, all_seen: bool
    ) -> list[Queries]:
        loop = scf.ForOp(first.value, last.value, constant(1).value, self.code.flat(state))
        with ir.InsertionPoint(loop.body):
            turn, mine = Word(loop.induction_variable), self.code.of(list(loop.inner_iter_args))
            # The warp's lanes have copied for each other, and have read the slot that is filled now.
            instructions.wait(_STAGES - 2)
            nvvm.SyncWarpOp(constant(-1).value)
            self._copy(turn + (_STAGES - 1))
            stage = turn % _STAGES * self.layout.stage
            totals = self.code.products(self.key_at(stage), left)
            piece = Piece(self.value_at(stage), self._first(turn))
            done = self.code.add(mine, totals, piece, flashwarp.lane_place(self.lane), all_seen=all_seen)
            scf.YieldOp(self.code.flat(done))
        return self.code.of(list(loop.results))
