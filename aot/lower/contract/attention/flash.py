"""Attention on Hopper's tensor cores: scores, their softmax and the weighted sum in one kernel.

In: two problems that belong together (``attention``), at a place in host code: scores of queries and keys, and the sum
of values with the scores' softmax as weights. Out: descriptors and a ``gpu.launch`` whose kernel only sm_90a images
hold. The scores are never in memory.

A block has 64 queries for each of two or three consumer warpgroups (``flashconsumer``); one thread copies them, and one
or two keys and values, 128 or 96 at a time, into two rings. As many blocks as there are multiprocessors go from tile to
tile, and these threads run ahead; the first one works out where a tile lies, and leaves that beside its queries.

Causal tiles are of different lengths. Those of some products, as many as share a cache, go by length; with every such
section, and with every turn of the blocks, the order changes its direction: so all blocks have about as much to do, and
the last tiles are short ones.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower.contract.attention import flashpick
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.flashconsumer import Consumer
from aot.lower.contract.attention.flashjob import (
    DEEP,
    KEY,
    NARROW,
    PLACE_BYTES,
    SHORT,
    SQUARE,
    TALL,
    VALUE,
    Attention,
    Layout,
    Ring,
    Shape,
    Tile,
    boxed,
)
from aot.lower.contract.attention.sight import Pieces, Sight
from aot.lower.contract.codegen import boxes, hopper, registers
from aot.lower.contract.codegen.boxes import DEPTH, Boxes
from aot.lower.contract.codegen.hopper import ATOM, SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.codegen.words import Word, constant, narrow
from aot.lower.contract.products import extents
from aot.lower.gpumodule import imageneeds
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling
from aot.settings.wishes import FLASH
from aot.tiling import ATTENTION

NEED = "sm_90a"
_FEW_KEYS = 1024
"""More are for three warpgroups, or rings of two stages: copies that run further ahead are slower then."""
_TALL_WIDTH = 64
"""Elements of a query for which three warpgroups have registers."""
_TALL_TIME, _TIME = 7, 5
"""What a tile of three warpgroups takes, to one of two."""
_TOGETHER, _CACHED_BYTES = 32, 1 << 24
"""Products whose causal tiles are sorted together: so many, or more if these bytes hold their keys and values."""


def launch(job: Attention, pick: Pick) -> None:
    """Emit the launch at the insertion point: where keys are many, more queries share them if registers suffice."""

    def shaped(*shapes: Shape) -> Attention:
        return replace(job, shape=pick.best(FLASH, shapes, lambda shape: replace(job, shape=shape).told))

    # What is read beside the scores takes registers.
    wide = job.bounded and max(job.depth, job.width) > _TALL_WIDTH
    usual = (SQUARE, NARROW, SHORT)[(1 + (job.sight is not None)) * wide :]
    square, deep, tall = shaped(*usual), shaped(DEEP, *usual), shaped(TALL, *usual)
    if pick.asks(FLASH):
        _launch(shaped(flashpick.asked(pick), *usual))
    elif job.bounded or max(job.depth, job.width) > _TALL_WIDTH:
        _launch(square)
    else:
        few = job.sight is not None or extents.at_most(job.scores.n, _FEW_KEYS)
        branches.either(few, lambda: _launch(deep), lambda: _launch_many(square, tall))


def _launch_many(square: Attention, tall: Attention) -> None:
    """For many keys: two warpgroups where their waves on the multiprocessors take less."""
    if tall.shape != TALL:
        _launch(square)
        return
    fits = (_waves(square) * _TIME).below(_waves(tall) * _TALL_TIME)
    branches.either(fits, lambda: _launch(square), lambda: _launch(tall))


def _tiles(job: Attention) -> tuple[Word, Word]:
    """Tiles below each other, and all of them, in host code."""
    down = Word(job.scores.m.value).tiles(job.shape.queries)
    return down, down * Word(job.scores.batches())


def _waves(job: Attention) -> Word:
    return _tiles(job)[1].tiles_of(Word(rtcalls.multiprocessors()))


def _launch(job: Attention) -> None:
    shape = job.shape
    scores, output = job.scores, job.output
    queries = boxes.of_factor(scores.left, scores.m, scores, shape.queries)
    keys = boxes.of_factor(scores.right, scores.n, scores, shape.keys, steps=job.depth)
    values = boxes.of_factor(output.right, output.n, output, shape.keys, steps=shape.keys)
    result = (
        boxes.of_result(output.epilogue.stores[0][0], output, shape.queries // shape.groups) if job.staged else None
    )
    down, count = _tiles(job)
    blocks = count.least(Word(rtcalls.multiprocessors()))
    one, threads, layout = rtcalls.index(1), WARPGROUP * (1 + shape.groups), Layout(job)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), layout.bytes).result
    sizes = ((blocks.value, one, one), (rtcalls.index(threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory)
    tiling.mark(op.operation, ATTENTION, 0, FLASH, job.told, job.remarks)
    # Without it ptxas may not know how many registers a thread begins with, and ignores what it is told of them.
    tiling.give_registers(op.operation)
    imageneeds.mark(op.operation, NEED)
    body = op.operation.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        Kernel(job, (queries, keys, values), result, body, (down, count)).emit()


class Kernel:
    """The code of one kernel; words are made where they dominate all of it."""

    def __init__(
        self,
        job: Attention,
        sides: tuple[Boxes, Boxes, Boxes],
        result: Boxes | None,
        body: ir.Block,
        counts: tuple[Word, Word],
    ) -> None:
        self.job, self.shape, self.layout = job, job.shape, Layout(job)
        self.queries, self.sides, self.result = sides[0], sides[1:], result
        self.thread, self.first, self.stride = (narrow(body.arguments[number]) for number in (3, 0, 6))
        self.m, self.keys = narrow(job.scores.m.value), narrow(job.scores.n.value)
        self.down, self.count = (narrow(each.value) for each in counts)
        self.loops = [narrow(each.value) for each in job.scores.batch]
        self.shared = hopper.shared_memory(ATOM)
        self.ring = Ring(self.shared + self.layout.barriers, self.shape)
        self.extents = (boxed(job.depth), boxed(job.width))
        self.pieces = Pieces(job.sight or Sight(), self.keys, self.shape.keys, self.shape.queries)
        self.group = self.thread // WARPGROUP
        self.lane = self.thread % WARPGROUP
        self.turns = self._turns()

    def stage(self, side: int, slot: Word) -> Word:
        """Where a piece lies."""
        return self.shared + self.layout.ring(side) + slot * self.layout.piece(side)

    def query_stage(self, slot: Word) -> Word:
        """Where a tile of queries lies."""
        return self.shared + slot * self.layout.queries

    def place(self, slot: Word) -> Word:
        """Where the tile that they are of is described."""
        return self.shared + self.layout.places + slot * PLACE_BYTES

    def ahead(self, side: int, turn: Word) -> Word:
        """Where the thread that copies a side leaves a tile for itself."""
        return self.place((turn & 1) + (2 + 2 * side))

    def emit(self) -> None:
        """All of it."""
        hopper.when(self.thread.equals(0), self.ring.prepare)
        hopper.fence_barriers(1)
        hopper.when(self.group.equals(0), self._produce, self._consume)

    def _consume(self) -> None:
        hopper.registers(self.shape.registers[1], more=True)
        Consumer(self).emit()

    # ---------------------------------------------------------------- which tiles

    def _turns(self) -> Word:
        """Tiles of the block."""
        whole, left = self.count // self.stride, self.count % self.stride
        return (whole + 1).where(self._nth(whole).below(left), whole)

    def _nth(self, turn: Word) -> Word:
        """The block's place among all in a turn."""
        return self.first.where((turn & 1).equals(0), self.stride - 1 - self.first)

    def _tile(self, turn: Word) -> Tile:
        number, pieces = turn * self.stride + self._nth(turn), self.keys.tiles(self.shape.keys)
        more = constant(1).where((turn + 1).below(self.turns), 0)
        if self.job.sight is None:
            return Tile(number % self.down * self.shape.queries, pieces, more, self._indices(number // self.down))
        per, products = self._together(), self.count // self.down
        section, inside = number // (per * self.down), number % (per * self.down)
        begin = section * per
        here = per.least(products - begin)
        row = inside // here
        longest_first = ((products.tiles_of(per) - section) & 1).equals(1)
        row = (self.down - 1 - row).where(longest_first, row)
        m0 = row * self.shape.queries
        seen = pieces.least(row + 1) if self.job.is_square else self.pieces.seen(pieces, m0)
        return Tile(m0, seen, more, self._indices(begin + inside % here))

    def _together(self) -> Word:
        """Products whose tiles are sorted together."""
        size = (self.job.depth + self.job.width) * 2
        cached = constant(_CACHED_BYTES // size) // self.keys
        return cached.where(constant(_TOGETHER).below(cached), _TOGETHER)

    def _indices(self, number: Word) -> tuple[Word, ...]:
        """Indices of the loops around a product from their common number."""
        found: list[Word] = []
        for size in reversed(self.loops[1:]):
            found.insert(0, number % size)
            number = number // size
        return (number, *found) if self.loops else ()

    # ---------------------------------------------------------------- the producer

    def _produce(self) -> None:
        """Where copies are large, keys do not wait behind values whose places are not free."""
        hopper.registers(self.shape.registers[0], more=False)
        if max(self.extents) > _TALL_WIDTH:
            hopper.when(self.thread.equals(0), lambda: self._copy_all((KEY,)))
            hopper.when(self.thread.equals(WARP), lambda: self._copy_all((VALUE,)))
        else:
            hopper.when(self.thread.equals(0), lambda: self._copy_all((KEY, VALUE)))

    def _copy_all(self, sides: tuple[int, ...]) -> None:
        """All of the block's keys, with the queries, or all values, or both."""
        zero, one = constant(0), constant(1)
        self._tile(zero).write(self.ahead(sides[0], zero))
        loop = scf.ForOp(zero.value, self.turns.value, one.value, [zero.value])
        with ir.InsertionPoint(loop.body):
            turn, used = Word(loop.induction_variable), Word(loop.inner_iter_args[0])
            tile = self._found(sides[0], turn)
            if KEY in sides:
                self._copy_queries(tile, turn)
            # They go on around the ring from tile to tile.
            for side in sides:
                self._copy(side, tile, zero, used)
            # The next tile is found while the places of these pieces are not free anyway; this one is read again:
            # the thread has few registers.
            self._tile((turn + 1).least(self.turns - 1)).write(self.ahead(sides[0], turn + 1))
            tile = self._found(sides[0], turn)
            # Not known when it is compiled, even where it could be: a loop of few turns would be unrolled, and spill.
            pieces = scf.ForOp(one.value, registers.here(tile.pieces).value, one.value)
            with ir.InsertionPoint(pieces.body):
                piece = Word(pieces.induction_variable)
                for side in sides:
                    self._copy(side, tile, piece, used + piece)
                scf.YieldOp([])
            scf.YieldOp([(used + tile.pieces).value])

    def _found(self, side: int, turn: Word) -> Tile:
        """A tile that a thread has found ahead."""
        return Tile.read(self.ahead(side, turn), len(self.loops))

    def _copy_queries(self, tile: Tile, turn: Word) -> None:
        slot = turn & 1
        hopper.wait(self.ring.queries_empty(slot), (turn // 2 & 1) ^ 1)
        tile.write(self.place(slot))
        barrier = self.ring.queries_full(slot)
        hopper.expect(barrier, constant(self.layout.queries))
        for part in range(self.extents[KEY] // DEPTH):
            at = self.queries.at(constant(part * DEPTH), tile.m0, tile.batch)
            target = self.query_stage(slot) + part * self.shape.queries * SWIZZLE_ROW
            hopper.load_tile(target, self.queries.map, at, barrier)

    def _copy(self, side: int, tile: Tile, piece: Word, number: Word) -> None:
        slot = number % self.shape.stages
        hopper.wait(self.ring.empty(side, slot), (number // self.shape.stages & 1) ^ 1)
        barrier = self.ring.full(side, slot)
        hopper.expect(barrier, constant(self.layout.piece(side)))
        first, turned = self.pieces.number(tile.m0, piece) * self.shape.keys, side == KEY and self.job.turned
        along, rows = (boxed(self.shape.keys), self.job.depth) if turned else (self.extents[side], self.shape.keys)
        for part in range(along // DEPTH):
            corner = (first + part * DEPTH, constant(0)) if turned else (constant(part * DEPTH), first)
            at = self.sides[side].at(*corner, tile.batch)
            target = self.stage(side, slot) + part * rows * SWIZZLE_ROW
            hopper.load_tile(target, self.sides[side].map, at, barrier)
