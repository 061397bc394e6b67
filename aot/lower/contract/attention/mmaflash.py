"""Attention on tensor cores by ``mma.sync``, in one kernel: sm_80 and everything later.

In: two problems that belong together (``attention``), whose factors are aligned for copies of 16 bytes. Out: a
``gpu.launch``. The scores are never in memory.

A block has a tile of queries, of which each warp takes some rows through all keys that one of them sees. Pieces of keys
and values come by asynchronous copies into a ring that all warps read; the next piece is copied while this one is
multiplied. Pieces that all queries of the tile see completely come first, in a loop without comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower.contract.attention import attentionpick, flashcopies, flashwarp, onlinesoftmax
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.flashcopies import Copies, Room
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.flashwarp import Piece, Queries, Sizes, Warp
from aot.lower.contract.codegen import instructions, tiles
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.sharedarray import Shared
from aot.lower.contract.codegen.tiles import Block, Target, Worker
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.mma.tensorcores import EVERYWHERE
from aot.lower.contract.products import epilogue, extents
from aot.lower.fast.regions import bodies
from aot.lower.gpumodule import imageneeds
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.settings.wishes import MMA_FLASH
from aot.targets.arch import WARP
from aot.tiling import ATTENTION

STAGES = 2
_PAD = 8
"""Sums by which a row in shared memory is longer, so that eight rows meet different banks."""
_SUM_BYTES = 4
_HELD = 128
"""Elements of its rows' queries, and of their sums, up to which a lane of four keeps queries in registers."""


_MOST_TURNED = 128
"""Elements of keys that lie below each other's for which shared memory has room beside larger tiles."""
_ROWS, _MOST_WARPS, _STEP, _MOST_KEYS = (16, 32), 8, 16, 128
"""Queries of a warp; warps; what keys of a piece are multiples of."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work: its queries, those of a warp, keys of a piece."""

    queries: int
    rows: int
    keys: int

    @property
    def threads(self) -> int:
        return self.queries // self.rows * WARP


_TILES = ((64, Tile(128, 32, 64)), (128, Tile(128, 32, 48)), (256, Tile(64, 16, 32)))
"""By the elements of a query or a value, which decide how much registers and shared memory hold."""
_NARROW = ((64, Tile(128, 32, 64)), (128, Tile(128, 32, 32)), (256, Tile(64, 16, 32)))
"""Where memory is read beside the scores, or queries stay in registers beside sums of more elements."""


def tile_for(job: Attention, pick: Pick) -> Tile:
    """The tile for a job."""
    table = _NARROW if job.bounded or job.depth < job.width else _TILES
    usual = next(tile for most, tile in table if max(job.depth, job.width) <= most)
    if job.turned and job.depth > _MOST_TURNED:
        usual = replace(usual, keys=_STEP)
    return pick.with_keys(MMA_FLASH, usual, _STEP, _asked, lambda tile: _told(job, tile))


def misfit(job: Attention, pick: Pick) -> str:
    """All that is wrong with the tile that the user wants."""
    tile = _asked(tile_for(job, Pick()), pick)
    found, most = [], _MOST_WARPS * tile.rows
    if tile.rows not in _ROWS:
        found.append(f"rows {tile.rows} is not possible; {_ROWS[0]} and {_ROWS[1]} are")
    elif tile.queries % tile.rows or tile.queries > most:
        found.append(f"queries {tile.queries} is not possible; multiples of rows {tile.rows} up to {most} are")
    if tile.keys % _STEP or tile.keys > _MOST_KEYS:
        found.append(f"keys {tile.keys} is not possible; multiples of {_STEP} up to {_MOST_KEYS} are")
    return "; ".join(found) or attentionpick.too_large(vars(tile), _Layout(job, tile).bytes, EVERYWHERE)


def _asked(usual: Tile, pick: Pick) -> Tile:
    return Tile(*(pick.size(name, size) for name, size in vars(usual).items()))


def _told(job: Attention, tile: Tile) -> dict[str, int]:
    return {**vars(tile), "depth": job.depth, "width": job.width, "stages": STAGES}


def launch(job: Attention, kind: Kind, need: str, pick: Pick) -> None:
    """Emit the launch at the insertion point; ``need``: the architecture of images that hold the kernel."""
    tile = tile_for(job, pick)
    layout = _Layout(job, tile)
    width = epilogue.width(job.output.epilogue)
    wide = extents.whole_vectors(job.output, width)
    count = Word(job.scores.m.value).tiles(tile.queries)
    blocks, one = count * Word(job.scores.batches()), rtcalls.index(1)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), layout.bytes).result
    sizes = ((blocks.value, one, one), (rtcalls.index(tile.threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory).operation
    tiling.mark(op, ATTENTION, 0, MMA_FLASH, _told(job, tile), job.remarks)
    if need:
        imageneeds.mark(op, need)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, down = narrow(body.arguments[0]), narrow(count.value)
        row = number % down
        if job.sight is not None:
            # The longest ones begin first.
            row = down - 1 - row
        batch = tiles.indices(number // down, [narrow(each.value) for each in job.scores.batch])
        m, n, zero = narrow(job.scores.m.value), constant(job.columns), constant(0)
        block = Block(op, job.output, narrow(body.arguments[3]), batch, row * tile.queries, zero, m, n, n, zero)
        _Code(job, kind, layout, block).emit(width, wide)


class _Layout:
    """Rooms of a block's shared memory: queries, then stages of keys and values; at the end sums, by warp."""

    def __init__(self, job: Attention, tile: Tile) -> None:
        self.tile = tile
        self.queries = Room(tile.queries, job.depth, tile.threads)
        self.keys = flashcopies.keys_of(job, tile.keys, tile.threads)
        self.values = Room(tile.keys, job.width, tile.threads)
        self.stage = self.keys.bytes + self.values.bytes
        self.slab = tile.rows * (job.width + _PAD) * _SUM_BYTES
        warps = tile.queries // tile.rows
        self.bytes = max(self.queries.bytes + STAGES * self.stage, warps * self.slab)


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Attention, kind: Kind, layout: _Layout, block: Block) -> None:
        self.job, self.layout, self.tile, self.block = job, layout, layout.tile, block
        self.lane, self.warp = block.thread % WARP, block.thread // WARP
        self.row0 = self.warp * self.tile.rows
        self.keys = narrow(job.scores.n.value)
        base = instructions.shared_base()
        starts = (base, base + layout.queries.bytes, base + (layout.queries.bytes + layout.keys.bytes))
        self.copies = [
            Copies(layout.queries, job.scores.left, block.batch, block.thread, starts[0]),
            flashcopies.key_copies(job, layout.keys, block.batch, block.thread, starts[1]),
            Copies(layout.values, job.output.right, block.batch, block.thread, starts[2]),
        ]
        queries = flashcopies.by_rows(starts[0] + self.row0 * layout.queries.pitch, self.lane)
        self.query_at = queries.padded(layout.queries.pitch)
        self.key_at = flashcopies.key_places(job, starts[1], self.lane).padded(layout.keys.pitch)
        self.value_at = flashcopies.by_rows(starts[2], self.lane).padded(layout.values.pitch)
        sizes = Sizes(self.tile.rows // flashwarp.SIXTEEN, self.tile.keys)
        self.code = Warp(job, kind, sizes, block.batch, (block.m, self.keys))
        row, self.pair = flashwarp.lane_place(self.lane)
        self.row = block.m0 + self.row0 + row

    def emit(self, width: int, wide: ir.Value | bool) -> None:
        """All of it; results are stored by vectors of ``width`` where that is possible."""
        self.pieces, seen = self._pieces()
        begin, whole = self._window()
        self.copies[0].begin(0, self.block.m0, self.block.m)
        for number in range(STAGES - 1):
            self._copy(begin + number)
        if self._holds():
            instructions.wait(STAGES - 2)
            gpu.BarrierOp()
        left = self._left() if self._holds() else None
        state = self.code.start()
        if whole is not None:
            state = self._loop(begin, whole, state, left, all_seen=False)
            begin, seen = whole, whole.where(seen.below(whole), seen)
        state = self._loop(begin, seen, state, left, all_seen=True)
        state = self._loop(seen, self.pieces, state, left, all_seen=False)
        instructions.wait(0)
        gpu.BarrierOp()
        self._finish(state, width, wide)

    def _holds(self) -> bool:
        return self.tile.rows // flashwarp.SIXTEEN * max(self.job.depth, self.job.width) <= _HELD

    def _left(self) -> flashwarp.Left:
        count = self.tile.rows // flashwarp.SIXTEEN
        if self._holds():
            return flashwarp.held(self.query_at(0), count, self.job.depth // flashwarp.SIXTEEN)
        return flashwarp.loaded(self.query_at(0), count)

    def _pieces(self) -> tuple[Word, Word]:
        """Of keys that one of the tile's queries sees, and those that all of them see completely."""
        some, all_, sight = self.keys, self.keys, self.job.sight
        if sight is not None:
            some = some.least(sight.end(self.block.m0, self.tile.queries - 1))
            all_ = all_.least(sight.end(self.block.m0))
        return some.tiles(self.tile.keys), all_ // self.tile.keys

    def _window(self) -> tuple[Word, Word | None]:
        """The first piece that one of the tile's queries sees, and from which on all do, if there is a window."""
        sight = self.job.sight
        if sight is None or sight.window is None:
            return constant(0), None
        begin = sight.begin(self.block.m0) // self.tile.keys
        whole = sight.begin(self.block.m0, self.tile.queries - 1).tiles(self.tile.keys)
        return begin, whole.least(self.pieces)

    def _stage(self, number: Word) -> Word:
        """Offset of a piece in the ring."""
        return number % STAGES * self.layout.stage

    def _copy(self, number: Word) -> None:
        """Begin to copy a piece, if there is one; without it, too, it counts as a group."""
        with branches.guard(number.below(self.pieces)):
            for copies in self.copies[1:]:
                copies.begin(self._stage(number), number * self.tile.keys, self.keys)
        instructions.commit()

    def _loop(
        self, first: Word, last: Word, begin: list[Queries], left: flashwarp.Left | None, *, all_seen: bool
    ) -> list[Queries]:
        loop = scf.ForOp(first.value, last.value, constant(1).value, self.code.flat(begin))
        with ir.InsertionPoint(loop.body):
            number, state = Word(loop.induction_variable), self.code.of(list(loop.inner_iter_args))
            # The slot that is filled was last read in the turn before.
            instructions.wait(STAGES - 2)
            gpu.BarrierOp()
            self._copy(number + (STAGES - 1))
            stage = self._stage(number)
            totals = self.code.products(self.key_at(stage), left or self._left())
            piece = Piece(self.value_at(stage), number * self.tile.keys)
            state = self.code.add(state, totals, piece, (self.row, self.pair), all_seen=all_seen)
            scf.YieldOp(self.code.flat(state))
        return self.code.of(list(loop.results))

    def _finish(self, state: list[Queries], width: int, wide: ir.Value | bool) -> None:
        """Sums divided by those of their weights, into the warp's own part of shared memory, and to the epilogue."""
        shape = [self.tile.rows, self.job.width + _PAD]
        start = (self.warp * self.layout.slab).index()
        element = ir.F32Type.get()
        pairs, slab = Shared(element, shape, start, lanes=2), Shared(element, shape, start)
        row, column = flashwarp.lane_place(self.lane)
        for number, each in enumerate(state):
            factors = [onlinesoftmax.inverse(mine, zeros=self.job.zeros) for mine in each.rows]
            for n in range(0, len(each.sums), 2):
                half, block = n % 4 // 2, n // 4
                values = [arith.MulFOp(value, factors[half]).result for value in each.sums[n : n + 2]]
                pairs.store(bodies.pack(values), [row + (flashwarp.SIXTEEN * number + 8 * half)], column + 8 * block)
        gpu.BarrierOp()

        def give(lanes: int) -> None:
            corner, sizes = (self.block.m0 + self.row0, constant(0)), (self.tile.rows, self.job.width)
            target = Target(self.job.output.epilogue, self.block.batch, lanes)
            tiles.give(self.block, slab, corner, sizes, Worker(self.lane, WARP), target)

        branches.either(wide, lambda: give(width), lambda: give(1))
