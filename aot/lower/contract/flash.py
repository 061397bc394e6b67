"""Attention on Hopper's tensor cores: scores, their softmax and the weighted sum in one kernel.

In: two problems that belong together (``attention``), at a place in host code: scores of queries and keys, and the sum
of values with the scores' softmax as weights. Out: descriptors and a ``gpu.launch`` whose kernel only sm_90a images
hold. The scores are never in memory.

A block has 64 queries for each of two or three consumer warpgroups (``flashconsumer``); a producer thread copies them,
and keys and values, 128 or 96 at a time, into two rings. As many blocks as there are multiprocessors go from tile to
tile, and the producer runs ahead; but where keys are many and causal, a block for each tile, the longest ones first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, gpu, scf

from aot.lower import imageneeds, rtcalls, tiling
from aot.lower.contract import boxes, extents, flashjob, hopper, tiles, wgmmafit
from aot.lower.contract.boxes import DEPTH, Boxes
from aot.lower.contract.flashconsumer import Consumer
from aot.lower.contract.flashjob import KEY, SQUARE, STAGES, TALL, VALUE, Attention, Ring, Tile
from aot.lower.contract.hopper import ATOM, SWIZZLE_ROW, WARPGROUP
from aot.lower.contract.words import Word, constant, narrow

NEED = "sm_90a"
_FEW_KEYS = 1024
"""Of causal attention: up to so many, blocks go from tile to tile. Others: more are for three warpgroups."""
_TALL_WIDTH = 64
"""Elements of a query for which three warpgroups have registers."""


def launch(job: Attention) -> None:
    """Emit the launch at the insertion point: where pieces are many, more queries share them if registers suffice."""
    is_tall = not job.causal and (job.depth, job.width) == (_TALL_WIDTH, _TALL_WIDTH)
    few = extents.at_most(job.scores.n, _FEW_KEYS) if is_tall else True
    tiles.either(few, lambda: _launch(job), lambda: _launch(replace(job, shape=TALL)))


def _launch(job: Attention) -> None:
    shape = job.shape
    scores, output = job.scores, job.output
    queries = boxes.of_factor(scores.left, scores.m, scores, shape.queries)
    keys = boxes.of_factor(scores.right, scores.n, scores, shape.keys)
    values = boxes.of_factor(output.right, output.n, output, shape.keys, steps=shape.keys)
    result = (
        boxes.of_result(output.epilogue.stores[0][0], output, shape.queries // shape.groups) if job.staged else None
    )
    down = Word(scores.m.value).tiles(shape.queries)
    count = down * Word(scores.batches())
    one, threads = rtcalls.index(1), WARPGROUP * (1 + shape.groups)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), flashjob.layout(job)[-1] + Ring.BYTES + ATOM).result
    sizes = ((_blocks(job, count).value, one, one), (rtcalls.index(threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory)
    told = {"queries": shape.queries, "keys": shape.keys, "depth": job.depth, "width": job.width, "stages": STAGES}
    tiling.mark(op.operation, "attention", 0, "flash", told, ("causal",) if job.causal else ())
    imageneeds.mark(op.operation, NEED)
    body = op.operation.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        Kernel(job, (queries, keys, values), result, body, (down, count)).emit()


def _blocks(job: Attention, count: Word) -> Word:
    some = count.least(Word(rtcalls.multiprocessors()))
    if not job.causal:
        return some
    few = extents.at_most(job.scores.n, _FEW_KEYS)
    return (some if few else count) if isinstance(few, bool) else some.where(few, count)


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
        self.job, self.shape = job, job.shape
        self.queries, self.sides, self.result = sides[0], sides[1:], result
        self.thread, self.first, self.stride = (narrow(body.arguments[number]) for number in (3, 0, 6))
        self.m, self.keys = narrow(job.scores.m.value), narrow(job.scores.n.value)
        self.tiles, self.count = (narrow(each.value) for each in counts)
        self.loops = [narrow(each.value) for each in job.scores.batch]
        self.shared = hopper.shared_memory(ATOM)
        self.starts = flashjob.layout(job)
        self.ring = Ring(self.shared + self.starts[-1])
        self.extents = (job.depth, job.width)
        self.group = self.thread // WARPGROUP
        self.lane = self.thread % WARPGROUP

    def bytes(self, side: int) -> int:
        """Of a piece of keys or values."""
        return self.shape.keys * self.extents[side] * 2

    def stage(self, side: int, slot: Word) -> Word:
        """Where a piece lies."""
        return self.shared + self.starts[side] + slot * self.bytes(side)

    def query_stage(self, slot: Word) -> Word:
        """Where a tile of queries lies."""
        return self.shared + slot * flashjob.query_bytes(self.job)

    def emit(self) -> None:
        """All of it."""
        hopper.when(self.thread.equals(0), lambda: self.ring.prepare(self.shape.groups))
        hopper.fence_barriers(1)
        hopper.when(self.group.equals(0), self._produce, self._consume)

    def _consume(self) -> None:
        hopper.registers(self.shape.registers[1], more=True)
        self.each_tile(Consumer(self).tile)

    def each_tile(self, work: Callable[[Tile], None]) -> None:
        """Code for each of the block's tiles."""
        before = [constant(0).value] if self.job.causal else []
        loop = scf.ForOp(self.first.value, self.count.value, self.stride.value, before)
        with ir.InsertionPoint(loop.body):
            used = Word(loop.inner_iter_args[0]) if self.job.causal else None
            tile = self.place(Word(loop.induction_variable), used)
            work(tile)
            scf.YieldOp([(used + tile.pieces).value] if used else [])

    def place(self, number: Word, used: Word | None) -> Tile:
        """Where a tile lies; ``used``: pieces of the tiles before it, where these have different numbers of them."""
        turn = (number - self.first) // self.stride
        around = number // self.tiles
        # Tiles of different lengths for a block that takes several: their order moves on with the loops around.
        row = (number % self.tiles + around) % self.tiles
        pieces = self.keys.tiles(self.shape.keys)
        if self.job.causal:
            row = self.tiles - 1 - row
            assert self.shape is SQUARE
            # As many keys in a piece as queries in a tile: of all pieces but the last one all are seen.
            pieces = pieces.least(row + 1)
        used = turn * pieces if used is None else used
        return Tile(number, row * self.shape.queries, _indices(around, self.loops), pieces, used, turn)

    # ---------------------------------------------------------------- the producer

    def _produce(self) -> None:
        hopper.registers(self.shape.registers[0], more=False)
        hopper.when(self.thread.equals(0), lambda: self.each_tile(self._copy_tile))

    def _copy_tile(self, tile: Tile) -> None:
        slot = tile.turn & 1
        hopper.wait(self.ring.queries_empty(slot), (tile.turn // 2 & 1) ^ 1)
        barrier = self.ring.queries_full(slot)
        hopper.expect(barrier, constant(flashjob.query_bytes(self.job)))
        for part in range(self.job.depth // DEPTH):
            at = self.queries.at(constant(part * DEPTH), tile.m0, tile.batch)
            target = self.query_stage(slot) + part * self.shape.queries * SWIZZLE_ROW
            hopper.load_tile(target, self.queries.map, at, barrier)
        loop = scf.ForOp(constant(0).value, tile.pieces.value, constant(1).value)
        with ir.InsertionPoint(loop.body):
            for side in (KEY, VALUE):
                self._copy(side, tile, Word(loop.induction_variable))
            scf.YieldOp([])

    def _copy(self, side: int, tile: Tile, piece: Word) -> None:
        number = tile.used + piece
        slot = number % STAGES
        hopper.wait(self.ring.empty(side, slot), (number // STAGES & 1) ^ 1)
        barrier = self.ring.full(side, slot)
        hopper.expect(barrier, constant(self.bytes(side)))
        for part in range(self.extents[side] // DEPTH):
            at = self.sides[side].at(constant(part * DEPTH), piece * self.shape.keys, tile.batch)
            target = self.stage(side, slot) + part * self.shape.keys * SWIZZLE_ROW
            hopper.load_tile(target, self.sides[side].map, at, barrier)


def stages_results(job: Attention) -> bool:
    """Whether TMA can store a job's results, of 16 bits, from where the queries were."""
    (array, _), *others = job.output.epilogue.stores
    element = ir.MemRefType(array.memory.type).element_type
    return not others and wgmmafit.can_stage(job.output) and rtcalls.storage_bytes(element) == 2


def _indices(number: Word, loops: list[Word]) -> tuple[Word, ...]:
    """Indices of the loops around it from their common number."""
    found: list[Word] = []
    for size in reversed(loops[1:]):
        found.insert(0, number % size)
        number = number // size
    return (number, *found) if loops else ()
