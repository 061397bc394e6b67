"""Attention on Hopper's tensor cores: scores, their softmax and the weighted sum in one kernel.

In: two problems that belong together (``attention``), at a place in host code: scores of queries and keys, and the sum
of values with the scores' softmax as weights. Out: descriptors and a ``gpu.launch`` whose kernel only sm_90a images
hold. The scores are never in memory.

A block has 128 queries, 64 for each of two consumer warpgroups; a producer thread copies keys and values, 128 at a
time, into two rings. The scores of the next piece are begun before the sum with this one's weights, so that tensor
cores work while weights are computed; weights stay in registers, as the sum's left factor.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, gpu, llvm, scf, vector

from aot.lower import imageneeds, rtcalls, tiling
from aot.lower.contract import boxes, flashjob, hopper, onlinesoftmax, registers
from aot.lower.contract.boxes import DEPTH, Boxes
from aot.lower.contract.epilogue import Place
from aot.lower.contract.flashjob import KEYS, QUERIES, STAGES, Attention, State
from aot.lower.contract.hopper import ATOM, SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.words import Word, constant, narrow

NEED = "sm_90a"
_GROUPS = 2
_PRODUCER_REGISTERS, _CONSUMER_REGISTERS = 24, 240
_STEP = 16
_BARRIER = 8
_KEY, _VALUE = 0, 1


def launch(job: Attention) -> None:
    """Emit the launch at the insertion point."""
    scores, output = job.scores, job.output
    queries = boxes.of_factor(scores.left, scores.m, scores, QUERIES)
    keys = boxes.of_factor(scores.right, scores.n, scores, KEYS)
    values = boxes.of_factor(output.right, output.n, output, KEYS, steps=KEYS)
    tiles = Word(scores.m.value).tiles(QUERIES)
    one, threads = rtcalls.index(1), WARPGROUP * (1 + _GROUPS)
    memory = arith.ConstantOp(ir.IntegerType.get_signless(32), flashjob.layout(job)[-1] + 16 * _BARRIER + ATOM).result
    sizes = (((tiles * Word(scores.batches())).value, one, one), (rtcalls.index(threads), one, one))
    op = gpu.LaunchOp(*sizes, dynamic_shared_memory_size=memory)
    sizes_ = {"queries": QUERIES, "keys": KEYS, "depth": job.depth, "width": job.width, "stages": STAGES}
    tiling.mark(op.operation, "attention", 0, "flash", sizes_, ("causal",) if job.causal else ())
    imageneeds.mark(op.operation, NEED)
    body = op.operation.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        _Kernel(job, (queries, keys, values), body, tiles).emit()


class _Kernel:
    def __init__(self, job: Attention, sides: tuple[Boxes, Boxes, Boxes], body: ir.Block, tiles: Word) -> None:
        self.job, self.queries, self.sides = job, sides[0], sides[1:]
        self.thread, block = narrow(body.arguments[3]), narrow(body.arguments[0])
        self.m, self.keys = narrow(job.scores.m.value), narrow(job.scores.n.value)
        count = narrow(tiles.value)
        loops = [narrow(each.value) for each in job.scores.batch]
        tile = block % count
        # Blocks with many keys begin first.
        self.m0 = (count - 1 - tile if job.causal else tile) * QUERIES
        self.batch = _indices(block // count, loops)
        self.pieces = self.keys.tiles(KEYS)
        if job.causal:
            # As many keys in a piece as queries in a block: of all pieces but the last one all are seen.
            self.pieces = self.pieces.least(self.m0 // KEYS + 1)
        self.shared = hopper.shared_memory(ATOM)
        self.starts = flashjob.layout(job)
        self.extents = (job.depth, job.width)
        self.group = self.thread // WARPGROUP
        self.lane = self.thread % WARPGROUP
        self.leads = self.lane.equals(0)
        lane = self.lane % WARP
        self.row = self.m0 + (self.group - 1) * 64 + self.lane // WARP * 16 + lane // 4
        self.pair = lane % 4 * 2
        self.element = str(job.scores.left.element)

    # ---------------------------------------------------------------- barriers and places

    def _barrier(self, number: Word) -> Word:
        return self.shared + self.starts[-1] + number * _BARRIER

    def _full(self, side: int, slot: Word) -> Word:
        return self._barrier(slot + (1 + 2 * side * STAGES))

    def _empty(self, side: int, slot: Word) -> Word:
        return self._barrier(slot + (1 + (2 * side + 1) * STAGES))

    def _bytes(self, side: int) -> int:
        return KEYS * self.extents[side] * 2

    def _stage(self, side: int, slot: Word) -> Word:
        return self.shared + self.starts[side] + slot * self._bytes(side)

    def emit(self) -> None:
        hopper.when(self.thread.equals(0), self._prepare)
        hopper.fence_barriers(1)
        hopper.when(self.group.equals(0), self._produce, self._consume)

    def _prepare(self) -> None:
        hopper.make_barrier(self._barrier(constant(0)), 1)
        for side in (_KEY, _VALUE):
            for slot in range(STAGES):
                hopper.make_barrier(self._full(side, constant(slot)), 1)
                hopper.make_barrier(self._empty(side, constant(slot)), _GROUPS)
        hopper.fence_made_barriers()

    # ---------------------------------------------------------------- the producer

    def _produce(self) -> None:
        hopper.registers(_PRODUCER_REGISTERS, more=False)
        hopper.when(self.thread.equals(0), self._copy_all)

    def _copy_all(self) -> None:
        barrier = self._barrier(constant(0))
        hopper.expect(barrier, constant(QUERIES * self.job.depth * 2))
        for part in range(self.job.depth // DEPTH):
            at = self.queries.at(constant(part * DEPTH), self.m0, self.batch)
            hopper.load_tile(self.shared + part * QUERIES * SWIZZLE_ROW, self.queries.map, at, barrier)
        loop = scf.ForOp(constant(0).value, self.pieces.value, constant(1).value)
        with ir.InsertionPoint(loop.body):
            piece = Word(loop.induction_variable)
            for side in (_KEY, _VALUE):
                self._copy(side, piece)
            scf.YieldOp([])

    def _copy(self, side: int, piece: Word) -> None:
        slot = piece % STAGES
        hopper.wait(self._empty(side, slot), (piece // STAGES & 1) ^ 1)
        barrier = self._full(side, slot)
        hopper.expect(barrier, constant(self._bytes(side)))
        for part in range(self.extents[side] // DEPTH):
            at = self.sides[side].at(constant(part * DEPTH), piece * KEYS, self.batch)
            target = self._stage(side, slot) + part * KEYS * SWIZZLE_ROW
            hopper.load_tile(target, self.sides[side].map, at, barrier)

    # ---------------------------------------------------------------- the consumers

    def _consume(self) -> None:
        hopper.registers(_CONSUMER_REGISTERS, more=True)
        mine = self.shared + (self.group - 1) * (64 * SWIZZLE_ROW)
        self.left = hopper.matrix(mine, 16)
        self.undefined = llvm.UndefOp(hopper.sums(KEYS)).result
        hopper.wait(self._barrier(constant(0)), constant(0))
        scores = self._begin_scores(constant(0))
        hopper.await_products(0)
        self._release(_KEY, constant(0))
        zero = onlinesoftmax.number(0.0)
        first = State(scores, [zero] * (self.job.width // 2), (onlinesoftmax.start(), onlinesoftmax.start()))
        last = self.pieces - 1
        loop = scf.ForOp(constant(0).value, last.value, constant(1).value, first.flat())
        with ir.InsertionPoint(loop.body):
            state = self._piece(Word(loop.induction_variable), State.of(list(loop.inner_iter_args)), last=False)
            scf.YieldOp(state.flat())
        self._store(self._piece(last, State.of(list(loop.results)), last=True))

    def _begin_scores(self, piece: Word) -> ir.Value:
        """Begin the products of all queries with a piece's keys."""
        slot = piece % STAGES
        hopper.wait(self._full(_KEY, slot), piece // STAGES & 1)
        right = hopper.matrix(self._stage(_KEY, slot), 16)
        hopper.begin_products()
        left, total = registers.here(self.left), self.undefined
        for step in range(self.job.depth // _STEP):
            part, inside = divmod(step * _STEP, DEPTH)
            one = hopper.moved(left, part * QUERIES * SWIZZLE_ROW + inside * 2)
            other = hopper.moved(right, part * KEYS * SWIZZLE_ROW + inside * 2)
            total = hopper.multiply(total, one, other, KEYS, self.element, (False, False), fresh=not step)
        hopper.end_products()
        return total

    def _begin_sums(self, piece: Word, weights: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        """Begin to add a piece's values with these weights."""
        slot = piece % STAGES
        hopper.wait(self._full(_VALUE, slot), piece // STAGES & 1)
        right = hopper.matrix(self._stage(_VALUE, slot), KEYS * SWIZZLE_ROW)
        hopper.begin_products()
        for step in range(KEYS // _STEP):
            other = hopper.moved(right, step * _STEP * SWIZZLE_ROW)
            words = weights[4 * step : 4 * step + 4]
            sums = registers.multiply(sums, words, other, self.element, turned=True)
        hopper.end_products()
        return sums

    def _release(self, side: int, piece: Word, condition: ir.Value | None = None) -> None:
        mine = self.leads if condition is None else arith.AndIOp(condition, self.leads).result
        hopper.when(mine, lambda: hopper.arrive(self._empty(side, piece % STAGES)))

    def _piece(self, piece: Word, state: State, *, last: bool) -> State:
        """Weights of a piece; the next one's scores and the sums with these weights run when it ends."""
        scores = self._scores(piece, state.scores, last=last)
        rows = [[scores[n] for n in range(len(scores)) if n % 4 // 2 == half] for half in range(2)]
        done = [onlinesoftmax.add(each, row) for each, row in zip(rows, state.rows, strict=True)]
        weights = [done[n % 4 // 2].weights[n // 4 * 2 + n % 2] for n in range(len(scores))]
        # The sums with the weights before are done from here on.
        hopper.await_products(0)
        words = self._packed(registers.held(weights))
        before = arith.CmpIOp(arith.CmpIPredicate.ne, piece.value, constant(0).value).result
        self._release(_VALUE, piece - 1, before)
        sums = [arith.MulFOp(value, done[n % 4 // 2].factor).result for n, value in enumerate(state.sums)]
        together = registers.held([*sums, *words])
        sums, words = together[: len(sums)], together[len(sums) :]
        following = state.scores if last else self._begin_scores(piece + 1)
        sums = self._begin_sums(piece, words, sums)
        if last:
            hopper.await_products(0)
        else:
            hopper.await_products(1)
            self._release(_KEY, piece + 1)
        return State(following, sums, (done[0].row, done[1].row))

    def _scores(self, piece: Word, total: ir.Value, *, last: bool) -> list[ir.Value]:
        """What the source makes of a thread's scores; of keys in the last piece that a query does not see, nothing."""
        found: list[ir.Value] = []
        kind = ir.VectorType.get([2], ir.F32Type.get())
        first = piece * KEYS + self.pair
        limits = [self._limit(half, first) for half in range(2)] if last else []
        for block in range(KEYS // 8):
            for half in range(2):
                pair = [hopper.element_of(total, 4 * block + 2 * half + number) for number in range(2)]
                at = self._place(self.row + 8 * half, first + 8 * block)
                made = self.job.epilogue.values(vector.FromElementsOp(kind, pair).result, at)[0]
                values = [vector.ExtractOp(made, [], [number]).result for number in range(2)]
                found += [_seen(each, 8 * block + n, limits[half]) for n, each in enumerate(values)] if last else values
        return found

    def _limit(self, half: int, first: Word) -> Word:
        """Places from ``first`` on that a query sees; none if it is negative."""
        limit = self.keys
        if self.job.causal:
            limit = limit.least(self.row + (8 * half + 1))
        return limit - first

    def _place(self, row: Word, column: Word) -> Place:
        if self.job.bounded:
            row, column = row.least(self.m - 1), column.least(self.keys - 2)
        return Place(tuple(each.index() for each in self.batch), row.index(), column.index(), 2)

    def _packed(self, weights: list[ir.Value]) -> list[ir.Value]:
        """Pairs of 16-bit elements."""
        kind, narrow_ = ir.VectorType.get([2], ir.F32Type.get()), ir.VectorType.get([2], self.job.scores.left.element)
        word = ir.VectorType.get([1], ir.IntegerType.get_signless(32))
        found = []
        for first in range(0, len(weights), 2):
            pair = vector.FromElementsOp(kind, weights[first : first + 2]).result
            packed = vector.BitCastOp(word, arith.TruncFOp(narrow_, pair).result).result
            found.append(vector.ExtractOp(packed, [], [0]).result)
        return found

    def _store(self, state: State) -> None:
        """Divide by the sums of weights, and give each pair of a row to the source's own operations."""
        kind = ir.VectorType.get([2], ir.F32Type.get())
        one = onlinesoftmax.number(1.0)
        factors = [arith.DivFOp(one, onlinesoftmax.whole(row)).result for row in state.rows]
        for half in range(2):
            row = self.row + 8 * half

            def store(half: int = half, row: Word = row) -> None:
                for block in range(self.job.width // 8):
                    first = 4 * block + 2 * half
                    pair = [arith.MulFOp(state.sums[first + n], factors[half]).result for n in range(2)]
                    column = self.pair + 8 * block
                    at = Place(tuple(each.index() for each in self.batch), row.index(), column.index(), 2)
                    epilogue = self.job.output.epilogue
                    epilogue.store(epilogue.values(vector.FromElementsOp(kind, pair).result, at), at)

            hopper.when(row.below(self.m), store)


def _seen(value: ir.Value, place: int, limit: Word) -> ir.Value:
    below = arith.CmpIOp(arith.CmpIPredicate.slt, constant(place).value, limit.value).result
    return arith.SelectOp(below, value, onlinesoftmax.number(float("-inf"))).result


def _indices(number: Word, loops: list[Word]) -> list[Word]:
    """Indices of the loops around it from their common number."""
    found: list[Word] = []
    for size in reversed(loops[1:]):
        found.insert(0, number % size)
        number = number // size
    return [number, *found] if loops else []
