"""What one warp does in the attention kernels of ``mma.sync``: scores of its queries with a piece of keys, their
softmax, and the sum of the piece's values with it as weights.

In: addresses of a piece in shared memory, and what the warp knows of its queries so far. Out: what it knows then.

A thread has, of each 8 keys or elements of a value, two neighbours in each of two rows of every 16 queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, vector

from aot.lower.contract.attention import onlinesoftmax, sight
from aot.lower.contract.attention.flashjob import Attention
from aot.lower.contract.attention.onlinesoftmax import Row
from aot.lower.contract.attention.sight import Limits
from aot.lower.contract.codegen import instructions
from aot.lower.contract.codegen.instructions import Kind
from aot.lower.contract.codegen.operand import right_tiles
from aot.lower.contract.codegen.words import Word
from aot.lower.contract.products.epilogue import Place

SIXTEEN = 16
"""Queries, or keys, or elements, of one instruction."""
Address = Callable[[int, int], Word]
"""A lane's address for ``ldmatrix`` of 16 rows and 16 elements, by their numbers in a tile."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Sums of 16 queries, four for each 8 elements of a value, and the softmax of a thread's two rows so far."""

    sums: list[ir.Value]
    rows: tuple[Row, Row]

    def flat(self) -> list[ir.Value]:
        return [*self.sums, *(value for row in self.rows for value in (row.largest, row.total))]

    @staticmethod
    def of(values: Sequence[ir.Value]) -> Queries:
        *sums, a, b, c, d = values
        return Queries(sums, (Row(a, b), Row(c, d)))


@dataclass(frozen=True, eq=False)
class Piece:
    """Values in shared memory, and whose they are."""

    values: Address
    first: Word
    """Number of the first key."""


@dataclass(frozen=True)
class Sizes:
    """Of a warp's work."""

    tiles: int
    """Of 16 queries."""
    keys: int
    """Of a piece."""


Totals = list[list[ir.Value]]
"""For each 16 queries four products for each 8 keys."""
Left = Callable[[int], list[list[ir.Value]]]
"""Fragments of the queries' 16 elements of a step, for each 16 of them."""


class Warp:
    """The code of one warp."""

    def __init__(
        self, job: Attention, kind: Kind, sizes: Sizes, batch: tuple[ir.Value, ...], extents: tuple[Word, Word]
    ):
        self.job, self.kind, self.sizes = job, kind, sizes
        self.batch, (self.m, self.keys) = batch, extents

    def start(self) -> list[Queries]:
        """Before the first piece."""
        zero = onlinesoftmax.number(0.0)
        count = self.job.width // 2
        begin = (onlinesoftmax.start(), onlinesoftmax.start())
        return [Queries([zero] * count, begin) for _ in range(self.sizes.tiles)]

    def flat(self, state: Sequence[Queries]) -> list[ir.Value]:
        return [value for each in state for value in each.flat()]

    def of(self, values: Sequence[ir.Value]) -> list[Queries]:
        """The inverse of ``flat``."""
        size = len(values) // self.sizes.tiles
        return [Queries.of(values[first : first + size]) for first in range(0, len(values), size)]

    def add(
        self, state: Sequence[Queries], totals: Totals, piece: Piece, place: tuple[Word, Word], *, all_seen: bool
    ) -> list[Queries]:
        """One more piece, with its products; ``place``: the thread's first row, and its first key of each 8."""
        row, pair = place
        scores = [
            self._rows(self._scores(total, row + number * SIXTEEN, piece.first + pair, all_seen=all_seen))
            for number, total in enumerate(totals)
        ]
        begun = self._moved(state, scores)
        words: list[list[ir.Value]] = []
        after: list[Queries] = []
        for each, halves in zip(begun, scores, strict=True):
            done = [onlinesoftmax.weighed(one, old, self.job.scale) for one, old in zip(halves, each.rows, strict=True)]
            (upper, first), (lower, second) = done
            words.append([self._packed(half[n : n + 2]) for n in range(0, len(upper), 2) for half in (upper, lower)])
            after.append(Queries(each.sums, (first, second)))
        return self._added(after, piece, words)

    def _rows(self, scores: list[ir.Value]) -> list[list[ir.Value]]:
        """Scores of a thread's two rows."""
        return [[scores[n] for n in range(len(scores)) if n % 4 // 2 == half] for half in range(2)]

    def _moved(self, state: Sequence[Queries], scores: Sequence[list[list[ir.Value]]]) -> list[Queries]:
        """The state, counted from the largest scores, if one of them is far from what its row counts from.

        That is seldom so after some pieces, and all sums would have to be multiplied.
        """
        pairs = [
            pair for each, halves in zip(state, scores, strict=True) for pair in zip(each.rows, halves, strict=True)
        ]
        largest = [onlinesoftmax.largest(mine, row) for row, mine in pairs]
        far = [onlinesoftmax.is_far(row, score, self.job.scale) for (row, _), score in zip(pairs, largest, strict=True)]
        before = self.flat(state)
        branch = scf.IfOp(instructions.any_lane(far), [value.type for value in before], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            done = []
            for number, each in enumerate(state):
                rows = zip(each.rows, largest[2 * number : 2 * number + 2], strict=True)
                (first, one), (second, other) = (onlinesoftmax.moved(row, score, self.job.scale) for row, score in rows)
                sums = [arith.MulFOp(value, (one, other)[n % 4 // 2]).result for n, value in enumerate(each.sums)]
                done.append(Queries(sums, (first, second)))
            scf.YieldOp(self.flat(done))
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(before)
        return self.of(list(branch.results))

    def products(self, keys: Address, left: Left) -> Totals:
        """Of queries and a piece's keys."""
        zero = onlinesoftmax.number(0.0)
        totals = [[zero] * (self.sizes.keys // 2) for _ in range(self.sizes.tiles)]
        for step in range(self.job.depth // SIXTEEN):
            queries = left(step)
            for tile in range(self.sizes.keys // SIXTEEN):
                at = keys(step, tile) if self.job.turned else keys(tile, step)
                self._multiply(queries, instructions.fragments(at, turned=self.job.turned), totals, tile)
        return totals

    def _added(self, state: list[Queries], piece: Piece, words: list[list[ir.Value]]) -> list[Queries]:
        """The sums, with the values of a piece times their weights."""
        sums = [list(each.sums) for each in state]
        for step in range(self.sizes.keys // SIXTEEN):
            weights = [each[4 * step : 4 * step + 4] for each in words]
            for tile in range(self.job.width // SIXTEEN):
                self._multiply(weights, instructions.fragments(piece.values(step, tile), turned=True), sums, tile)
        return [Queries(mine, each.rows) for mine, each in zip(sums, state, strict=True)]

    def _multiply(
        self,
        left: Sequence[Sequence[ir.Value]],
        right: Sequence[ir.Value],
        totals: list[list[ir.Value]],
        tile: int,
    ) -> None:
        for half, columns in enumerate(right_tiles([right])):
            four = slice(8 * tile + 4 * half, 8 * tile + 4 * half + 4)
            for mine, total in zip(left, totals, strict=True):
                total[four] = instructions.multiply(self.kind, mine, columns, total[four])

    def _scores(self, totals: list[ir.Value], row: Word, first: Word, *, all_seen: bool) -> list[ir.Value]:
        """What the source makes of a thread's products; of keys that a query does not see, nothing."""
        found: list[ir.Value] = []
        seen = [] if all_seen else [self._limits(row + 8 * half, first) for half in range(2)]
        for n in range(0, len(totals), 2):
            block, half = n // 4, n % 4 // 2
            values = self._made(totals[n : n + 2], row + 8 * half, first + 8 * block)
            if not all_seen:
                values = seen[half].seen(values, [8 * block + k for k in range(2)])
            found += values
        return found

    def _limits(self, row: Word, first: Word) -> Limits:
        return sight.limits(self.job.sight, self.keys, (row, 0), first)

    def _made(self, pair: Sequence[ir.Value], row: Word, column: Word) -> list[ir.Value]:
        if self.job.bounded:
            # One by one: arrays that are read may be of any length.
            row = row.least(self.m - 1)
            places = [(column + n).least(self.keys - 1) for n in range(2)]
            return [
                self.job.scores_of(value, Place(self.batch, row.index(), place.index()))
                for value, place in zip(pair, places, strict=True)
            ]
        kind = ir.VectorType.get([2], ir.F32Type.get())
        at = Place(self.batch, row.index(), column.index(), 2)
        made = self.job.scores_of(vector.FromElementsOp(kind, list(pair)).result, at)
        return [vector.ExtractOp(made, [], [number]).result for number in range(2)]

    def _packed(self, pair: Sequence[ir.Value]) -> ir.Value:
        """Two weights as the elements that they are multiplied with."""
        kind, narrow = ir.VectorType.get([2], ir.F32Type.get()), ir.VectorType.get([2], self.job.scores.left.element)
        made = arith.TruncFOp(narrow, vector.FromElementsOp(kind, list(pair)).result).result
        return instructions.packed(made).value


def held(queries: Address, tiles: int, steps: int) -> Left:
    """Queries that stay in registers: loaded here."""
    found = [_fragments(queries, tiles, step) for step in range(steps)]
    return lambda step: found[step]


def loaded(queries: Address, tiles: int) -> Left:
    """Queries that are loaded again for each piece."""
    return lambda step: _fragments(queries, tiles, step)


def _fragments(queries: Address, tiles: int, step: int) -> list[list[ir.Value]]:
    return [instructions.fragments(queries(tile, step), turned=False) for tile in range(tiles)]


def lane_place(lane: Word) -> tuple[Word, Word]:
    """A lane's first row of 16, and its first column of 8."""
    return lane // 4, lane % 4 * 2
