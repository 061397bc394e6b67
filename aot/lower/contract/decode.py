"""Attention of few queries by ``mma.sync``: blocks share the keys, and a second kernel puts their parts together.

In: two problems that belong together (``attention``), of at most 16 rows: queries, or all that read the same keys. Out:
launches; the second one only where there are several parts.

Memory bounds this work. So each warp of a block has keys and a ring of its own, and waits for nobody while it reads
them; at the end the block's warps add their sums up in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, gpu, nvvm, scf

from aot.lower import imageneeds, rtcalls, tiling
from aot.lower.contract import (
    decodeparts,
    epilogue,
    extents,
    flashcopies,
    flashwarp,
    instructions,
    onlinesoftmax,
    splitting,
    tiles,
)
from aot.lower.contract.decodeparts import Parts
from aot.lower.contract.epilogue import Epilogue, Total, constant_index
from aot.lower.contract.flashcopies import Copies, Room
from aot.lower.contract.flashjob import Attention
from aot.lower.contract.flashwarp import SIXTEEN, Piece, Queries, Sizes, Warp
from aot.lower.contract.instructions import Kind
from aot.lower.contract.onlinesoftmax import Row
from aot.lower.contract.sharedarray import Shared
from aot.lower.contract.tiles import Block, Target, Worker
from aot.lower.contract.words import Word, constant, narrow
from aot.lower.fast import bodies
from aot.lower.fast.places import Extent

MOST_ROWS = SIXTEEN
_WARP = 32
_PAD = 8
_SUM_BYTES = 4
_PAIR = 4
"""Numbers for a row's largest score and its sum of weights."""
_STAGES = 2
_BLOCKS = 2
"""Of a multiprocessor."""
_LEAST_TURNS = 2
"""Pieces that each warp of a block has."""


@dataclass(frozen=True)
class Tile:
    """How a block divides the work: its warps, and the keys of a warp's piece."""

    warps: int
    keys: int

    @property
    def threads(self) -> int:
        return self.warps * _WARP

    @property
    def turn(self) -> int:
        """Keys that all warps read at a time."""
        return self.warps * self.keys


_TILES = ((64, Tile(4, 32)), (128, Tile(4, 16)), (256, Tile(2, 16)))
"""By the elements of a query or a value."""


def launch(job: Attention, kind: Kind, need: str) -> None:
    """Emit the launches at the insertion point; ``need``: the architecture of images that hold the first kernel."""
    tile = next(tile for most, tile in _TILES if max(job.depth, job.width) <= most)
    layout = _Layout(job, tile)
    parts = _parts(job, tile)
    batches = Word(job.scores.batches())
    blocks, one = batches * Word(parts.count.value), rtcalls.index(1)
    width = epilogue.width(job.output.epilogue)
    wide = extents.whole_vectors(job.output, width)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), layout.bytes).result
    sizes = ((blocks.value, one, one), (rtcalls.index(tile.threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory).operation
    told = {"rows": MOST_ROWS, "keys": tile.keys, "depth": job.depth, "width": job.width, "stages": _STAGES}
    tiling.mark(op, "attention", 0, "decode", {**told, "threads": tile.threads})
    if need:
        imageneeds.mark(op, need)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        number, count = narrow(body.arguments[0]), narrow(parts.count.value)
        batch = tiles.indices(number // count, [narrow(each.value) for each in job.scores.batch])
        m, n = narrow(job.scores.m.value), constant(job.width)
        block = Block(op, job.output, narrow(body.arguments[3]), batch, constant(0), constant(0), m, n, n)
        _Code(job, kind, layout, block, parts, number % count).emit(width, wide)
    parts.combine(job)


def _parts(job: Attention, tile: Tile) -> Parts:
    """So many parts that blocks fill the GPU, none of them empty; memory for what they leave."""
    turns = Word(job.scores.n.value).tiles(tile.turn)
    wanted = Word(arith.CeilDivUIOp((Word(rtcalls.multiprocessors()) * _BLOCKS).value, job.scores.batches()).result)
    some = turns.tiles(_LEAST_TURNS).least(wanted).least(decodeparts.MOST)
    each = Word(arith.CeilDivUIOp(turns.value, some.value).result)
    count = Word(arith.CeilDivUIOp(turns.value, each.value).result)
    sums, one = splitting.memory(job.output, count)
    # Of each row its largest score and the sum of its weights.
    pairs, other = splitting.memory(replace(job.output, n=constant_index(2)), count)
    return Parts(Extent(count.value, None), each * tile.turn, sums, pairs, (one, other))


class _Layout:
    """Rooms of a block's shared memory: queries, then each warp's ring; at the end sums and softmax of all warps."""

    def __init__(self, job: Attention, tile: Tile) -> None:
        self.tile = tile
        self.queries = Room(MOST_ROWS, job.depth, tile.threads)
        self.keys, self.values = (Room(tile.keys, each, _WARP) for each in (job.depth, job.width))
        self.stage = self.keys.bytes + self.values.bytes
        self.ring = _STAGES * self.stage
        self.rows = tile.warps * MOST_ROWS
        self.pairs = self.rows * (job.width + _PAD) * _SUM_BYTES
        """Where the softmax lies: of all warps, and at last of the block."""
        end = self.pairs + (self.rows + MOST_ROWS) * _PAIR * _SUM_BYTES
        self.bytes = max(self.queries.bytes + tile.warps * self.ring, end)


class _Code:
    """The code of one kernel."""

    def __init__(self, job: Attention, kind: Kind, layout: _Layout, block: Block, parts: Parts, part: Word) -> None:
        self.job, self.layout, self.tile, self.block = job, layout, layout.tile, block
        self.parts, self.part = parts, part
        self.several = constant(1).below(narrow(parts.count.value))
        self.lane, self.warp = block.thread % _WARP, block.thread // _WARP
        self.keys = narrow(job.scores.n.value)
        base = instructions.shared_base()
        ring = base + self.warp * layout.ring + layout.queries.bytes
        self.query_copies = Copies(layout.queries, job.scores.left, block.batch, block.thread, base)
        self.copies = [
            Copies(layout.keys, job.scores.right, block.batch, self.lane, ring),
            Copies(layout.values, job.output.right, block.batch, self.lane, ring + layout.keys.bytes),
        ]
        self.query_start = flashcopies.by_rows(base, layout.queries.pitch, self.lane)
        self.key_start = flashcopies.by_columns(ring, layout.keys.pitch, self.lane)
        self.value_start = flashcopies.by_rows(ring + layout.keys.bytes, layout.values.pitch, self.lane)
        sizes = Sizes(1, self.tile.keys, layout.keys.pitch, layout.values.pitch)
        self.code = Warp(job, kind, sizes, [Word(each) for each in block.batch], (block.m, self.keys))
        self.row, self.pair = flashwarp.lane_place(self.lane)

    def emit(self, width: int, wide: ir.Value | bool) -> None:
        """All of it; results are stored by vectors of ``width`` where that is possible."""
        share = narrow(self.parts.keys.value)
        self.begin = self.part * share
        end = (self.begin + share).least(self.keys)
        whole = (end - self.begin) // self.tile.turn
        self.turns = (end - self.begin).tiles(self.tile.turn)
        self.query_copies.begin(0, constant(0), self.block.m)
        for stage in range(_STAGES - 1):
            self._copy(constant(stage))
        instructions.wait(_STAGES - 2)
        gpu.BarrierOp()
        left = flashwarp.held(self.query_start, self.layout.queries.pitch, 1, self.job.depth // SIXTEEN)
        state = self._loop(constant(0), whole, self.code.start(), left, all_seen=True)
        (queries,) = self._loop(whole, self.turns, state, left, all_seen=False)
        instructions.wait(0)
        gpu.BarrierOp()
        self._merge(queries)
        self._give(width, wide)

    def _first(self, turn: Word) -> Word:
        """The warp's first key in a turn."""
        return self.begin + (turn * self.tile.warps + self.warp) * self.tile.keys

    def _copy(self, turn: Word) -> None:
        """Begin to copy the warp's keys and values of a turn, if there is one; without it, too, it is a group."""
        branch = scf.IfOp(turn.below(self.turns))
        with ir.InsertionPoint(branch.then_block):
            for copies in self.copies:
                copies.begin(turn % _STAGES * self.layout.stage, self._first(turn), self.keys)
            scf.YieldOp([])
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
            piece = Piece(self.key_start + stage, self.value_start + stage, self._first(turn))
            done = self.code.add(mine, piece, left, (self.row, self.pair), all_seen=all_seen)
            scf.YieldOp(self.code.flat(done))
        return self.code.of(list(loop.results))

    def _views(self, lanes: int = 0) -> tuple[Shared, Shared, Shared]:
        """Sums and softmax of the warps' rows, below each other; the softmax of the block's rows."""
        element, layout = ir.F32Type.get(), self.layout
        sums = Shared(element, [layout.rows, self.job.width + _PAD], 0, lanes=lanes)
        block = Shared(element, [MOST_ROWS, _PAIR], layout.pairs + layout.rows * _PAIR * _SUM_BYTES)
        return sums, Shared(element, [layout.rows, _PAIR], layout.pairs), block

    def _merge(self, state: Queries) -> None:
        """The block's sums are the first rows of shared memory then; divided by those of weights if it has all keys."""
        sums, pairs, block = self._views(lanes=2)
        rows = [self.row + 8 * half for half in range(2)]
        mine = [Row(each.largest, onlinesoftmax.whole(each)) for each in state.rows]
        for row, each in zip(rows, mine, strict=True):
            _keep(each, pairs, row + self.warp * MOST_ROWS)
        gpu.BarrierOp()
        factors = [self._factor(row, each, pairs, block) for row, each in zip(rows, mine, strict=True)]
        for n in range(0, len(state.sums), 2):
            half, column = n % 4 // 2, self.pair + n // 4 * 8
            values = [arith.MulFOp(value, factors[half]).result for value in state.sums[n : n + 2]]
            sums.store(bodies.pack(values), [rows[half] + self.warp * MOST_ROWS], column)
        gpu.BarrierOp()
        self._add_up()
        gpu.BarrierOp()

    def _factor(self, row: Word, mine: Row, pairs: Shared, block: Shared) -> ir.Value:
        """What the warp's sums of a row are multiplied with."""
        all_ = [
            Row(*(pairs.load([row + warp * MOST_ROWS], constant(n), 1) for n in range(2)))
            for warp in range(self.tile.warps)
        ]
        merged = onlinesoftmax.merged(all_, self.job.scale)
        _keep(merged, block, row)
        one = onlinesoftmax.number(1.0)
        divisor = arith.SelectOp(self.several, one, onlinesoftmax.reciprocal(merged.total)).result
        return arith.MulFOp(onlinesoftmax.factor(mine, merged, self.job.scale), divisor).result

    def _add_up(self) -> None:
        sums, _, _ = self._views()
        across = self.job.width // sums.lanes
        loop = scf.ForOp(self.block.thread.value, constant(MOST_ROWS * across).value, constant(self.tile.threads).value)
        with ir.InsertionPoint(loop.body):
            number = Word(loop.induction_variable)
            row, column = number // across, number % across * sums.lanes
            parts = [sums.load([row + warp * MOST_ROWS], column, sums.lanes) for warp in range(self.tile.warps)]
            sums.store(onlinesoftmax.total(parts), [row], column)
            scf.YieldOp([])

    def _give(self, width: int, wide: ir.Value | bool) -> None:
        """To memory for parts, if there are several; else to the results."""
        sums, _, pairs = self._views()
        part = (self.part.index(), *self.block.batch)

        def give_part() -> None:
            self._store(sums, Epilogue(None, ((self.parts.sums, Total()),)), part, sums.lanes)
            self._store(pairs, Epilogue(None, ((self.parts.pairs, Total()),)), part, 1)

        def give_results(lanes: int) -> None:
            self._store(sums, self.job.output.epilogue, self.block.batch, lanes)

        tiles.either(
            self.several, give_part, lambda: tiles.either(wide, lambda: give_results(width), lambda: give_results(1))
        )

    def _store(self, slab: Shared, done: Epilogue, batch: tuple[ir.Value, ...], lanes: int) -> None:
        columns = self.job.width if slab.shape[1] > _PAIR else 2
        block = replace(self.block, n=constant(columns))
        worker, corner = Worker(self.block.thread, self.tile.threads), (constant(0), constant(0))
        tiles.give(block, slab, corner, (MOST_ROWS, columns), worker, Target(done, batch, lanes))


def _keep(row: Row, pairs: Shared, place: Word) -> None:
    """All four threads of a row have the same."""
    pairs.store(row.largest, [place], constant(0))
    pairs.store(row.total, [place], constant(1))
