"""A consumer warpgroup of ``flash``: scores of 64 queries, their softmax, and the sum of values with it as weights.

In: the kernel; a tile of queries. Out: the code that waits for keys and values, computes, and stores.

The scores of the next piece are begun before the sum with this one's weights, so that tensor cores work while weights
are computed; weights stay in registers, as the sum's left factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from aot.lower.contract import hopper, instructions, onlinesoftmax, registers
from aot.lower.contract.boxes import DEPTH
from aot.lower.contract.epilogue import Place
from aot.lower.contract.flashjob import KEY, STAGES, VALUE, State, Tile
from aot.lower.contract.hopper import SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.instructions import Kind
from aot.lower.contract.words import Word, constant

if TYPE_CHECKING:
    from aot.lower.contract.flash import Kernel

_STEP = 16
_ROWS = 64
"""Queries of a warpgroup."""


class Consumer:
    """The code of one warpgroup."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.job, self.ring = kernel, kernel.job, kernel.ring
        self.kind = Kind(str(self.job.scores.left.element), 2, "f32")
        self.keys = self.job.shape.keys
        self.undefined = llvm.UndefOp(hopper.sums(self.keys)).result

    def _know(self, thread: Word, tile: Tile) -> None:
        """Work out a thread's place in a tile."""
        lane = thread % WARPGROUP
        self.at, self.consumer, self.leads = tile, thread // WARPGROUP - 1, lane.equals(0)
        self.warp, self.lane = lane // WARP, lane % WARP
        self.row = tile.m0 + self.consumer * _ROWS + self.warp * 16 + self.lane // 4
        self.pair = self.lane % 4 * 2

    def tile(self, tile: Tile) -> None:
        """Compute and store a tile's results."""
        self._know(self.kernel.thread, tile)
        slot = tile.turn & 1
        self.left = hopper.matrix(self._mine(), 16)
        hopper.wait(self.ring.queries_full(slot), tile.turn // 2 & 1)
        scores = self._begin_scores(constant(0))
        hopper.await_products(0)
        self._release(KEY, constant(0))
        zero = onlinesoftmax.number(0.0)
        first = State(scores, [zero] * (self.job.width // 2), (onlinesoftmax.start(), onlinesoftmax.start()))
        # Not known when it is compiled, even where it could be: a loop of few turns would be unrolled, and spill.
        last = registers.here(tile.pieces - 1)
        loop = scf.ForOp(constant(0).value, last.value, constant(1).value, first.flat())
        with ir.InsertionPoint(loop.body):
            state = self._piece(Word(loop.induction_variable), State.of(list(loop.inner_iter_args)), last=False)
            scf.YieldOp(state.flat())
        # Places are worked out again: the loop has no registers for them.
        again = self.kernel.place(registers.here(tile.number), tile.used if self.job.causal else None)
        self._know(registers.here(self.kernel.thread), again)
        last = self.at.pieces - 1
        state = self._piece(last, State.of(list(loop.results)), last=True)
        self._release(VALUE, last)
        self._store(state)
        hopper.when(self.leads, lambda: hopper.arrive(self.ring.queries_empty(self.at.turn & 1)))

    def _mine(self) -> Word:
        """Where this warpgroup's queries lie."""
        return self.kernel.query_stage(self.at.turn & 1) + self.consumer * (_ROWS * SWIZZLE_ROW)

    def _begin_scores(self, piece: Word) -> ir.Value:
        """Begin the products of all queries with a piece's keys."""
        number = self.at.used + piece
        slot = number % STAGES
        hopper.wait(self.ring.full(KEY, slot), number // STAGES & 1)
        right = hopper.matrix(self.kernel.stage(KEY, slot), 16)
        hopper.begin_products()
        left, total = registers.here(self.left), self.undefined
        for step in range(self.job.depth // _STEP):
            part, inside = divmod(step * _STEP, DEPTH)
            one = hopper.moved(left, part * self.job.shape.queries * SWIZZLE_ROW + inside * 2)
            other = hopper.moved(right, part * self.keys * SWIZZLE_ROW + inside * 2)
            total = hopper.multiply(total, one, other, self.keys, self.kind, (False, False), fresh=not step)
        hopper.end_products()
        return total

    def _begin_sums(self, piece: Word, weights: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        """Begin to add a piece's values with these weights."""
        number = self.at.used + piece
        slot = number % STAGES
        hopper.wait(self.ring.full(VALUE, slot), number // STAGES & 1)
        right = hopper.matrix(self.kernel.stage(VALUE, slot), self.keys * SWIZZLE_ROW)
        hopper.begin_products()
        for step in range(self.keys // _STEP):
            other = hopper.moved(right, step * _STEP * SWIZZLE_ROW)
            words = weights[4 * step : 4 * step + 4]
            sums = registers.multiply(sums, words, other, self.kind.name, turned=True)
        hopper.end_products()
        return sums

    def _release(self, side: int, piece: Word, condition: ir.Value | None = None) -> None:
        mine = self.leads if condition is None else arith.AndIOp(condition, self.leads).result
        slot = (self.at.used + piece) % STAGES
        hopper.when(mine, lambda: hopper.arrive(self.ring.empty(side, slot)))

    def _piece(self, piece: Word, state: State, *, last: bool) -> State:
        """Weights of a piece; the next one's scores and the sums with these weights run when it ends."""
        scores = self._scores(piece, state.scores, last=last)
        rows = [[scores[n] for n in range(len(scores)) if n % 4 // 2 == half] for half in range(2)]
        done = [onlinesoftmax.add(each, row, self.job.scale) for each, row in zip(rows, state.rows, strict=True)]
        weights = [done[n % 4 // 2].weights[n // 4 * 2 + n % 2] for n in range(len(scores))]
        # The sums with the weights before are done from here on.
        hopper.await_products(0)
        words = self._packed(registers.held(weights))
        before = arith.CmpIOp(arith.CmpIPredicate.ne, piece.value, constant(0).value).result
        self._release(VALUE, piece - 1, before)
        sums = [arith.MulFOp(value, done[n % 4 // 2].factor).result for n, value in enumerate(state.sums)]
        together = registers.held([*sums, *words])
        sums, words = together[: len(sums)], together[len(sums) :]
        following = state.scores if last else self._begin_scores(piece + 1)
        sums = self._begin_sums(piece, words, sums)
        if last:
            hopper.await_products(0)
        else:
            hopper.await_products(1)
            self._release(KEY, piece + 1)
        return State(following, sums, (done[0].row, done[1].row))

    def _scores(self, piece: Word, total: ir.Value, *, last: bool) -> list[ir.Value]:
        """What the source makes of a thread's scores; of keys in the last piece that a query does not see, nothing."""
        found: list[ir.Value] = []
        kind = ir.VectorType.get([2], ir.F32Type.get())
        first = piece * self.keys + self.pair
        limits = [self._limit(half, first) for half in range(2)] if last else []
        for block in range(self.keys // 8):
            for half in range(2):
                pair = [hopper.element_of(total, 4 * block + 2 * half + number) for number in range(2)]
                at = self._place(self.row + 8 * half, first + 8 * block)
                made = self.job.epilogue.values(vector.FromElementsOp(kind, pair).result, at)[0]
                values = [vector.ExtractOp(made, [], [number]).result for number in range(2)]
                found += (
                    [onlinesoftmax.seen(each, 8 * block + n, limits[half]) for n, each in enumerate(values)]
                    if last
                    else values
                )
        return found

    def _limit(self, half: int, first: Word) -> Word:
        """Places from ``first`` on that a query sees; none if it is negative."""
        limit = self.kernel.keys
        if self.job.causal:
            limit = limit.least(self.row + (8 * half + 1))
        return limit - first

    def _place(self, row: Word, column: Word) -> Place:
        if self.job.bounded:
            row, column = row.least(self.kernel.m - 1), column.least(self.kernel.keys - 2)
        return Place(tuple(each.index() for each in self.at.batch), row.index(), column.index(), 2)

    def _packed(self, weights: list[ir.Value]) -> list[ir.Value]:
        """Pairs of 16-bit elements."""
        kind, narrow = ir.VectorType.get([2], ir.F32Type.get()), ir.VectorType.get([2], self.job.scores.left.element)
        pairs = [vector.FromElementsOp(kind, weights[first : first + 2]).result for first in range(0, len(weights), 2)]
        return [instructions.packed(arith.TruncFOp(narrow, pair).result).value for pair in pairs]

    def _store(self, state: State) -> None:
        """Divide by the sums of weights, and give each pair of a row to the source's own operations."""
        self.factors = [onlinesoftmax.inverse(row, zeros=self.job.zeros) for row in state.rows]
        if self.kernel.result is not None:
            self._store_tile(state)
            return
        for half in range(2):
            row = self.row + 8 * half

            def store(half: int = half, row: Word = row) -> None:
                for block in range(self.job.width // 8):
                    at = self._result_place(row, self.pair + 8 * block)
                    self.job.output.epilogue.store(self._results(state, block, half, at), at)

            hopper.when(row.below(self.kernel.m), store)

    def _store_tile(self, state: State) -> None:
        """Through shared memory, where this warpgroup's queries were, and TMA."""
        target = self.kernel.result
        assert target is not None
        barrier = self.consumer + 1
        hopper.warpgroup_sync(barrier)
        mine = self._mine()
        chunks = [mine + chunk * self.job.shape.queries * SWIZZLE_ROW for chunk in range(self.job.width // _ROWS)]
        for chunk, buffer in enumerate(chunks):

            def pair(block: int, half: int, chunk: int = chunk) -> ir.Value:
                row = (self.row + 8 * half).least(self.kernel.m - 1)
                at = self._result_place(row, self.pair + 8 * (8 * chunk + block))
                return self._results(state, 8 * chunk + block, half, at)[0]

            hopper.store_halves(buffer + self.warp * (16 * SWIZZLE_ROW), self.lane, pair)
        hopper.fence_stores()
        hopper.warpgroup_sync(barrier)

        def send() -> None:
            for chunk, buffer in enumerate(chunks):
                top = self.at.m0 + self.consumer * _ROWS
                hopper.store_tile(target.map, target.at(constant(chunk * _ROWS), top, self.at.batch), buffer)
            hopper.await_stores(0)

        hopper.when(self.leads, send)

    def _result_place(self, row: Word, column: Word) -> Place:
        return Place(tuple(each.index() for each in self.at.batch), row.index(), column.index(), 2)

    def _results(self, state: State, block: int, half: int, at: Place) -> list[ir.Value]:
        """What the source makes of a thread's two neighbours in a block of 8 columns."""
        first = 4 * block + 2 * half
        pair = [arith.MulFOp(state.sums[first + n], self.factors[half]).result for n in range(2)]
        kind = ir.VectorType.get([2], ir.F32Type.get())
        return self.job.output.epilogue.values(vector.FromElementsOp(kind, pair).result, at)
