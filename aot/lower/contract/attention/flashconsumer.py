"""A consumer warpgroup of ``flash``: scores of 64 queries, their softmax, and the sum of values with it as weights.

In: the kernel; a tile of queries. Out: the code that waits for keys and values, computes, and stores.

The scores of the next piece, or of the next tile's first one, are begun before the sum with this one's weights, so that
tensor cores work while weights are computed; weights stay in registers, as the sum's left factor. Two warpgroups take
turns: while one computes exponentials, which one at a time keeps busy, the other's products run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from aot.lower.contract.attention import onlinesoftmax, sight
from aot.lower.contract.attention.flashjob import KEY, VALUE, State, Tile, Turns, boxed
from aot.lower.contract.codegen import hopper, instructions, registers
from aot.lower.contract.codegen.boxes import DEPTH, Boxes
from aot.lower.contract.codegen.hopper import SWIZZLE_ROW, WARP, WARPGROUP
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products.epilogue import Place

if TYPE_CHECKING:
    from aot.lower.contract.attention.flash import Kernel

_STEP = 16
_ROWS = 64
"""Queries of a warpgroup."""


class Consumer:
    """The code of one warpgroup."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.job, self.ring, self.turns = kernel, kernel.job, kernel.ring, Turns(kernel.shape)
        self.kind = instructions.Kind(str(self.job.scores.left.element), 2, "f32")
        self.keys, self.stages = self.job.shape.keys, self.job.shape.stages
        self.undefined = llvm.UndefOp(hopper.sums(self.keys)).result

    def emit(self) -> None:
        """Compute and store the results of all of the block's tiles."""
        zero, leads = constant(0), self.kernel.lane.equals(0)
        self._await_queries(zero)
        scores = self._begin_scores(self._await(KEY, zero), self._queries(zero))
        hopper.await_products(0)
        hopper.when(leads, lambda: hopper.arrive(self.ring.empty(KEY, zero)))
        self.turns.begin(self.kernel.group)
        begin = [zero.value, zero.value, scores]
        loop = scf.WhileOp([each.type for each in begin], begin)
        # The first tile is always there; the one that leaves says whether another one is.
        for region in loop.operation.regions:
            region.blocks.append(*(each.type for each in begin))
        block, after = (region.blocks[0] for region in loop.operation.regions)
        with ir.InsertionPoint(block):
            turn, used, scores = block.arguments
            self._tile(Word(turn), Word(used), scores)
        with ir.InsertionPoint(after):
            scf.YieldOp(list(after.arguments))
        if self.kernel.result is not None:
            hopper.when(leads, lambda: hopper.await_stores(0))

    def _know(self, thread: Word, turn: Word) -> None:
        """Work out a thread's place in a tile."""
        lane = thread % WARPGROUP
        self.at = Tile.read(self.kernel.place(turn & 1), len(self.kernel.loops))
        self.consumer, self.leads = thread // WARPGROUP - 1, lane.equals(0)
        self.warp, self.lane = lane // WARP, lane % WARP
        self.row = self.at.m0 + self.consumer * _ROWS + self.warp * 16 + self.lane // 4
        self.pair = self.lane % 4 * 2

    def _tile(self, turn: Word, used: Word, scores: ir.Value) -> None:
        """Compute and store a tile's results; its first scores are there, and in the end the next one's.

        ``used``: pieces of the tiles before it, whose number goes on. Ends with the condition of the loop over tiles.
        """
        self._know(self.kernel.thread, turn)
        zero, self.used = onlinesoftmax.number(0.0), used
        self.left = self._queries(turn)
        first = State(scores, [zero] * (self.job.width // 2), (onlinesoftmax.start(), onlinesoftmax.start()))
        before = self._all_but_last(turn, first)
        # Places are worked out again, and once more: products leave no registers for them.
        turn = registers.here(turn)
        self._know(registers.here(self.kernel.thread), turn)
        self.turn, self.more = turn, self.at.more.equals(1)
        self.left = self._queries(turn + 1)
        state = self._piece(self.at.pieces - 1, before, all_seen=self.job.all_seen(last=True), last=True)
        turn = registers.here(turn)
        self._know(registers.here(self.kernel.thread), turn)
        self._store(state, turn)
        scf.ConditionOp(self.more, [(turn + 1).value, (used + self.at.pieces).value, state.scores])

    def _all_but_last(self, turn: Word, state: State) -> State:
        """All pieces but the last one; where some of their keys are not seen by all queries, in three loops."""
        seen, last = self.job.sight, self.at.pieces - 1
        if seen is None or seen.is_plain or self.job.bounded:
            return self._loop((constant(0), last), state, self.job.all_seen(last=False))
        begin, end = self.kernel.pieces.seen_by_all(self.at.m0, last)
        state = self._loop((constant(0), begin), state, False, turn)
        self._know(registers.here(self.kernel.thread), registers.here(turn))
        state = self._loop((begin, end), state, True)
        return self._loop((end, last), state, False, turn)

    def _loop(self, pieces: tuple[Word, Word], state: State, all_seen: bool | None, again: Word | None = None) -> State:
        """Some pieces; ``again``: the tile whose places are worked out for each of them."""
        loop = scf.ForOp(*(each.value for each in (*pieces, constant(1))), state.flat())
        with ir.InsertionPoint(loop.body):
            piece, before = Word(loop.induction_variable), State.of(list(loop.inner_iter_args))
            if again is not None:
                self._know(registers.here(self.kernel.thread), registers.here(again))
            scf.YieldOp(self._piece(piece, before, all_seen=all_seen).flat())
        return State.of(list(loop.results))

    def _await_queries(self, turn: Word) -> None:
        hopper.wait(self.ring.queries_full(turn & 1), turn // 2 & 1)

    def _queries(self, turn: Word) -> Word:
        """This warpgroup's, as products want them."""
        consumer = registers.here(self.kernel.thread) // WARPGROUP - 1
        return hopper.matrix(self.kernel.query_stage(turn & 1) + consumer * (_ROWS * SWIZZLE_ROW), 16)

    def _await(self, side: int, number: Word) -> Word:
        """Wait for a piece of keys or values; its place in the ring."""
        slot = number % self.stages
        hopper.wait(self.ring.full(side, slot), number // self.stages & 1)
        return slot

    def _begin_scores(self, slot: Word, queries: Word) -> ir.Value:
        """Begin the products of all queries with a piece's keys."""
        turned = self.job.turned
        right = hopper.matrix(self.kernel.stage(KEY, slot), self.job.depth * SWIZZLE_ROW if turned else 16)
        hopper.begin_products()
        left, total = registers.here(queries), self.undefined
        for step in range(self.job.depth // _STEP):
            part, inside = divmod(step * _STEP, DEPTH)
            one = hopper.moved(left, part * self.job.shape.queries * SWIZZLE_ROW + inside * 2)
            place = step * _STEP * SWIZZLE_ROW if turned else part * self.keys * SWIZZLE_ROW + inside * 2
            other = hopper.moved(right, place)
            total = hopper.multiply(total, one, other, self.keys, self.kind, (False, turned), fresh=not step)
        hopper.end_products()
        return total

    def _begin_sums(self, slot: Word, weights: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        """Begin to add a piece's values with these weights."""
        right = hopper.matrix(self.kernel.stage(VALUE, slot), self.keys * SWIZZLE_ROW)
        hopper.begin_products()
        for step in range(self.keys // _STEP):
            other = hopper.moved(right, step * _STEP * SWIZZLE_ROW)
            words = weights[4 * step : 4 * step + 4]
            sums = registers.multiply(sums, words, other, self.kind.name, turned=True)
        hopper.end_products()
        return sums

    def _release(self, side: int, number: Word, condition: ir.Value | None = None) -> None:
        mine = self.leads if condition is None else arith.AndIOp(condition, self.leads).result
        hopper.when(mine, lambda: hopper.arrive(self.ring.empty(side, number % self.stages)))

    def _piece(self, piece: Word, state: State, *, all_seen: bool | None, last: bool = False) -> State:
        """Weights of a piece; the next one's scores are there when it ends, and the sums with these weights run.

        Behind the last piece the next tile's first one comes. Without one, products are of what lies there, for nobody.
        """
        number, more = self.used + piece, self.more if last else None
        scores = self._scores(self.kernel.pieces.number(self.at.m0, piece), state.scores, all_seen)
        rows = [[scores[n] for n in range(len(scores)) if n % 4 // 2 == half] for half in range(2)]
        begun = onlinesoftmax.begun(rows, state.rows, self.job.scale)
        done = [onlinesoftmax.weighed(each, row, self.job.scale) for each, row in zip(rows, begun.rows, strict=True)]
        weights = [done[n % 4 // 2][0][n // 4 * 2 + n % 2] for n in range(len(scores))]
        # The sums with the weights before are done from here on.
        hopper.await_products(0)
        before = arith.CmpIOp(arith.CmpIPredicate.ne, piece.value, constant(0).value).result
        self._release(VALUE, number - 1, before)
        words = instructions.halves(registers.held(weights), self.job.scores.left.element)
        sums = begun.multiplied(state.sums)
        together = registers.held([*sums, *words])
        sums, words = together[: len(sums)], together[len(sums) :]
        keys = self._await_next(number + 1, last=last)
        self.turns.take(self.consumer)
        following = self._begin_scores(keys, self.left)
        # Waiting, if for nothing, keeps exponentials ahead, beside the scores: ptxas moves them no further.
        values = self._await(VALUE, number)
        self.turns.give(self.consumer)
        sums = self._begin_sums(values, words, sums)
        hopper.await_products(1)
        self._release(KEY, number + 1, more)
        if last:
            hopper.await_products(0)
            self._release(VALUE, number)
        return State(following, sums, (done[0][1], done[1][1]))

    def _await_next(self, number: Word, *, last: bool) -> Word:
        """Wait for a piece of keys, behind the last one with its queries and if there is one; its place in the ring."""
        if not last:
            return self._await(KEY, number)

        def wait() -> None:
            self._await_queries(self.turn + 1)
            self._await(KEY, number)

        hopper.when(self.more, wait)
        return number % self.stages

    def _scores(self, piece: Word, total: ir.Value, all_seen: bool | None) -> list[ir.Value]:
        """What the source makes of a thread's scores; of keys in a piece that a query does not see, nothing."""
        found: list[ir.Value] = []
        kind = ir.VectorType.get([2], ir.F32Type.get())
        first = piece * self.keys + self.pair
        for block in range(self.keys // 8):
            for half in range(2):
                pair = [hopper.element_of(total, 4 * block + 2 * half + number) for number in range(2)]
                at = self._place(self.row + 8 * half, first + 8 * block)
                made = self.job.scores_of(vector.FromElementsOp(kind, pair).result, at)
                found += [vector.ExtractOp(made, [], [number]).result for number in range(2)]
        if all_seen is not None:
            return found if all_seen else self._seen(found, first)
        branch = scf.IfOp(self._is_whole(piece), [each.type for each in found], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(found)
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(self._seen(found, first))
        return list(branch.results)

    def _is_whole(self, piece: Word) -> ir.Value:
        """Whether all of the warpgroup's queries see all keys of a piece, up to their places or behind them."""
        behind, seen = (piece + 1) * self.keys, self.kernel.keys
        if self.job.sight is not None:
            seen = seen.least(self.job.sight.end(self.at.m0, self.consumer * _ROWS))
        return arith.CmpIOp(arith.CmpIPredicate.ule, behind.value, seen.value).result

    def _seen(self, scores: list[ir.Value], first: Word) -> list[ir.Value]:
        """A thread's scores; nothing of keys that a query does not see."""
        seen = [sight.limits(self.job.sight, self.kernel.keys, (self.row, 8 * half), first) for half in range(2)]
        return [seen[n % 4 // 2].seen([each], [8 * (n // 4) + n % 2])[0] for n, each in enumerate(scores)]

    def _place(self, row: Word, column: Word) -> Place:
        if self.job.bounded:
            row, column = row.least(self.kernel.m - 1), column.least(self.kernel.keys - 2)
        return self._result_place(row, column)

    def _store(self, state: State, turn: Word) -> None:
        """Divide by the sums of weights, and give each pair of a row to the source's own operations."""
        self.factors = [onlinesoftmax.inverse(row, zeros=self.job.zeros) for row in state.rows]
        target, barrier = self.kernel.result, self.consumer + 1
        if target is not None:
            # Those of the tile before are gone long since.
            hopper.when(self.leads, lambda: hopper.await_stores(0))
        hopper.warpgroup_sync(barrier)
        # All threads know where the tile lies.
        hopper.when(self.leads, lambda: hopper.arrive(self.ring.queries_empty(turn & 1)))
        if target is not None:
            self._store_tile(state, target)
            return
        for half in range(2):
            row = self.row + 8 * half

            def store(half: int = half, row: Word = row) -> None:
                for block in range(self.job.columns // 8):
                    at = self._result_place(row, self.pair + 8 * block)
                    self.job.output.epilogue.store(self._results(state, block, half, at), at)

            hopper.when(row.below(self.kernel.m), store)

    def _store_tile(self, state: State, target: Boxes) -> None:
        """Through shared memory and TMA."""
        mine = self.kernel.shared + self.kernel.layout.results + self.consumer * (_ROWS * SWIZZLE_ROW)
        pitch, count = self.job.shape.queries * SWIZZLE_ROW, boxed(self.job.width) // _ROWS
        chunks = [mine + chunk * pitch for chunk in range(count)]
        for chunk, buffer in enumerate(chunks):

            def pair(block: int, half: int, chunk: int = chunk) -> ir.Value:
                # Behind a row's own elements nothing is stored.
                block = min(8 * chunk + block, self.job.columns // 8 - 1)
                row = (self.row + 8 * half).least(self.kernel.m - 1)
                return self._results(state, block, half, self._result_place(row, self.pair + 8 * block))[0]

            hopper.store_halves(buffer + self.warp * (16 * SWIZZLE_ROW), self.lane, pair)
        hopper.fence_stores()
        hopper.warpgroup_sync(self.consumer + 1)

        def send() -> None:
            for chunk, buffer in enumerate(chunks):
                top = self.at.m0 + self.consumer * _ROWS
                hopper.store_tile(target.map, target.at(constant(chunk * _ROWS), top, self.at.batch), buffer)

        hopper.when(self.leads, send)

    def _result_place(self, row: Word, column: Word) -> Place:
        return Place(tuple(each.index() for each in self.at.batch), row.index(), column.index(), 2)

    def _results(self, state: State, block: int, half: int, at: Place) -> list[ir.Value]:
        """What the source makes of a thread's two neighbours in a block of 8 columns."""
        first = 4 * block + 2 * half
        pair = [arith.MulFOp(state.sums[first + n], self.factors[half]).result for n in range(2)]
        kind = ir.VectorType.get([2], ir.F32Type.get())
        return self.job.output.epilogue.values(vector.FromElementsOp(kind, pair).result, at)
