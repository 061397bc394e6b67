"""What a kernel of ``flash`` computes, how it lies in shared memory, and what goes from piece to piece.

In: two problems that belong together. Out: sizes and places; the state of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.contract.attention.onlinesoftmax import Row, Scale
from aot.lower.contract.attention.sight import Sight
from aot.lower.contract.codegen import hopper, sharednumbers
from aot.lower.contract.codegen.boxes import DEPTH
from aot.lower.contract.codegen.sharednumbers import WORD
from aot.lower.contract.codegen.words import Word, constant
from aot.lower.contract.products.epilogue import Epilogue, Place
from aot.lower.contract.products.problem import Problem

_ROWS = 64
"""Queries of a warpgroup."""
KEY, VALUE = 0, 1
"""The two rings."""
_BARRIER = 8
_PAIR = 2
"""Warpgroups that wait for each other."""
PLACE_BYTES = 8 * WORD
"""Of a Tile in shared memory: as many words as there can be."""


@dataclass(frozen=True)
class Shape:
    """How a block of ``flash`` divides the work."""

    groups: int
    """Consumer warpgroups."""
    keys: int
    """Of a piece."""
    stages: int = 2
    """Pieces on their way."""

    @property
    def queries(self) -> int:
        """Of a tile."""
        return self.groups * _ROWS

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread of the producer's warpgroup, and of a consumer."""
        return (24, 240) if self.groups == 2 else (32, 160)

    @property
    def is_square(self) -> bool:
        """As many keys in a piece as queries in a tile."""
        return self.keys == self.queries


SQUARE, NARROW, SHORT, TALL, DEEP = Shape(2, 128), Shape(2, 96), Shape(2, 64, 4), Shape(3, 96), Shape(2, 128, 3)


@dataclass(frozen=True, eq=False)
class Attention:
    """What one kernel computes."""

    scores: Problem
    """Queries (left) by keys (right); the epilogue stores what the softmax is taken of."""
    output: Problem
    """Its right factor are the values; loops around it are those of the scores."""
    depth: int
    """Elements of a query, up to a multiple of 16: those behind its own are zeros."""
    width: int
    """Elements of a value, so, too."""
    epilogue: Epilogue
    """What becomes of a score that a query sees."""
    scale: Scale
    """What is left to multiply it with, before its softmax."""
    sight: Sight | None
    """The keys that a query sees; None for all of them."""
    zeros: bool
    """Results of a query that sees no key are zeros, not NaN."""
    staged: bool
    """TMA can store the result, 16-bit elements."""
    shape: Shape = SQUARE
    needs: tuple[ir.Value | bool, ...] = ()
    """Conditions of the call, beside those of types, layouts and extents."""
    span: tuple[Word, Word] | None = None
    """Of keys that some of few queries see: the first one and the end, as indices of host code."""

    @property
    def keys(self) -> tuple[Word | int, Word]:
        """The same where queries may see all of them, too."""
        return self.span or (0, Word(self.scores.n.value))

    @property
    def is_square(self) -> bool:
        """Whether of all pieces of a tile but the last one all keys are seen, by all its queries."""
        return self.sight is None or (self.sight.is_plain and self.shape.is_square)

    def all_seen(self, *, last: bool) -> bool | None:
        """Whether all of a tile's queries see all keys of its last piece, or of others; None if a kernel asks."""
        if not last and self.is_square:
            return True
        # What is read beside the scores leaves no registers for them in two forms.
        return False if self.bounded or (self.sight is not None and last) else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """For reports."""
        if self.sight is None:
            return ()
        last = f"{self.sight.last} ahead" if self.sight.last > 0 else "causal"
        return (last,) if self.sight.window is None else (last, f"window {self.sight.window}")

    @property
    def turned(self) -> bool:
        """Whether keys lie below each other's elements: neighbours in memory are keys."""
        return self.scores.right.turned

    @property
    def columns(self) -> int:
        """A value's own elements."""
        assert self.output.n.static is not None
        return self.output.n.static

    @property
    def bounded(self) -> bool:
        """Whether the epilogue reads memory: only where there is some."""
        return len(self.epilogue.arrays()) > 1

    def scores_of(self, total: ir.Value, at: Place) -> ir.Value:
        """What the source makes of products, in f32: a softmax of 16 bits is rounded at its end."""
        made = self.epilogue.values(total, at)[0]
        return made if made.type == total.type else arith.ExtFOp(total.type, made).result

    @property
    def told(self) -> dict[str, int]:
        """Its sizes, for reports."""
        shape, sizes = self.shape, {"depth": self.depth, "width": self.width}
        return {"queries": shape.queries, "keys": shape.keys, **sizes, "stages": shape.stages}


def boxed(elements: int) -> int:
    """Elements of whole boxes of TMA, which reads zeros behind a row."""
    return -(-elements // DEPTH) * DEPTH


@dataclass(frozen=True)
class Layout:
    """A block's shared memory: two tiles of queries, rings of keys and values, results, barriers, places of tiles."""

    job: Attention

    @property
    def queries(self) -> int:
        """Bytes of a tile."""
        return self.job.shape.queries * boxed(self.job.depth) * 2

    def piece(self, side: int) -> int:
        """Bytes of a piece of keys or values."""
        keys = self.job.shape.keys
        if side == KEY and self.job.turned:
            return boxed(keys) * self.job.depth * 2
        return keys * boxed((self.job.depth, self.job.width)[side]) * 2

    def ring(self, side: int) -> int:
        """Where the keys' or the values' begins."""
        return 2 * self.queries + side * self.job.shape.stages * self.piece(KEY)

    @property
    def results(self) -> int:
        """Where results that TMA stores lie."""
        return self.ring(VALUE) + self.job.shape.stages * self.piece(VALUE)

    @property
    def barriers(self) -> int:
        return self.results + self.job.staged * self.job.shape.queries * boxed(self.job.width) * 2

    @property
    def places(self) -> int:
        """Where words about the two tiles lie, and those about tiles that threads have found ahead."""
        return self.barriers + (4 + 4 * self.job.shape.stages) * _BARRIER

    @property
    def bytes(self) -> int:
        """Of all of it, wherever it begins."""
        return self.places + 6 * PLACE_BYTES + hopper.ATOM


@dataclass(frozen=True, eq=False)
class State:
    """What goes from piece to piece: scores that are being computed, sums, and the softmax of two rows so far."""

    scores: ir.Value
    sums: list[ir.Value]
    rows: tuple[Row, Row]

    def flat(self) -> list[ir.Value]:
        return [self.scores, *self.sums, *(value for row in self.rows for value in (row.largest, row.total))]

    @staticmethod
    def of(values: Sequence[ir.Value]) -> State:
        scores, *sums, a, b, c, d = values
        return State(scores, sums, (Row(a, b), Row(c, d)))


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile of queries, as the producer leaves it beside them."""

    m0: Word
    pieces: Word
    """Of keys that one of its queries sees."""
    more: Word
    """1 if the block has another tile behind it, else 0."""
    batch: tuple[Word, ...]

    def flat(self) -> list[ir.Value]:
        return [each.value for each in (self.m0, self.pieces, self.more, *self.batch)]

    @staticmethod
    def of(words: Sequence[Word]) -> Tile:
        m0, pieces, more, *batch = words
        return Tile(m0, pieces, more, tuple(batch))

    def write(self, address: Word) -> None:
        """To shared memory."""
        for number, value in enumerate(self.flat()):
            sharednumbers.write_word(address + number * WORD, Word(value))

    @staticmethod
    def read(address: Word, loops: int) -> Tile:
        """From there; ``loops``: how many there are around a product."""
        return Tile.of([sharednumbers.read_word(address + number * WORD) for number in range(3 + loops)])


class Ring:
    """Barriers: of two tiles of queries, and of each ring's stages."""

    def __init__(self, start: Word, shape: Shape) -> None:
        self.start, self.groups, self.stages = start, shape.groups, shape.stages

    def queries_full(self, slot: Word) -> Word:
        return self.start + slot * _BARRIER

    def queries_empty(self, slot: Word) -> Word:
        return self.start + (slot + 2) * _BARRIER

    def full(self, side: int, slot: Word) -> Word:
        return self.start + (slot + (4 + 2 * side * self.stages)) * _BARRIER

    def empty(self, side: int, slot: Word) -> Word:
        return self.start + (slot + (4 + (2 * side + 1) * self.stages)) * _BARRIER

    def prepare(self) -> None:
        """Make all barriers; a stage is free when as many consumers have read it."""
        for slot in range(2):
            hopper.make_barrier(self.queries_full(constant(slot)), 1)
            hopper.make_barrier(self.queries_empty(constant(slot)), self.groups)
        for side in (KEY, VALUE):
            for slot in range(self.stages):
                hopper.make_barrier(self.full(side, constant(slot)), 1)
                hopper.make_barrier(self.empty(side, constant(slot)), self.groups)
        hopper.fence_made_barriers()


class Turns:
    """One of two warpgroups at a time computes weights; three fill the multiprocessor without."""

    def __init__(self, shape: Shape) -> None:
        self.groups, self.taken = shape.groups, shape.groups == _PAIR

    def begin(self, group: Word) -> None:
        """The first one may, as if the last one, with this number, had just been at it."""
        if self.taken:
            hopper.when(group.equals(self.groups), lambda: hopper.warpgroup_arrive(self._barrier(constant(0)), _PAIR))

    def take(self, consumer: Word) -> None:
        """Wait until the one before has its weights."""
        if self.taken:
            hopper.warpgroup_sync(self._barrier(consumer), _PAIR)

    def give(self, consumer: Word) -> None:
        """Let the next one go on."""
        if self.taken:
            following = (consumer + 1).where(consumer.below(self.groups - 1), 0)
            hopper.warpgroup_arrive(self._barrier(following), _PAIR)

    def _barrier(self, consumer: Word) -> Word:
        """Behind those of the stores."""
        return consumer + (1 + self.groups)
