"""Sums of places, as conditions of masks compare them: of a score's query and key, and of numbers of host code.

In: a value in the body of an operation on scores. Out: a Sum, if it is one and cannot wrap. Of a comparison of two: the
distance of the key from the query that it asks for, and whether it holds for all of some pairs of them.

``key > query + past - 256`` asks whether ``key - query - past + 256`` is above 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.products.epilogue import Array, Input, Step
from aot.lower.fast.regions import reducers

FARTHEST = 1 << 28
"""Sums with numbers below it do not wrap in 32 bits: no array has so many places along a dimension of scores."""
_MOST_TERMS = 3
"""Numbers of host code in a sum: with as many it does not wrap, either."""
_QUIET = frozenset({"arith", "index", "affine"})
"""Dialects whose operations read no memory."""
_SIGNED = frozenset({"arith.index_cast", "arith.extsi"})
_CASTS = _SIGNED | {"arith.index_castui", "arith.extui"}

Terms = tuple[tuple[ir.Value, int], ...]
"""Numbers of host code, and how often each is added, in the order of the source: the same code is made each time."""
NONE: Terms = ()


@dataclass(frozen=True)
class Pairs:
    """Some pairs of a key and a query, by the least and the largest distance of the key from the query."""

    least: int | None
    largest: int | None

    def above(self, number: int) -> bool | None:
        """Whether all of them, or none, have ``distance + number > 0``."""
        if self.least is not None and self.least + number > 0:
            return True
        return False if self.largest is not None and self.largest + number <= 0 else None

    def equal(self, number: int) -> bool | None:
        """Whether all of them, or none, have ``distance + number == 0``."""
        if self.above(number) is True or self.above(number + 1) is False:
            return False
        return True if self.above(number) is False and self.above(number + 1) is True else None


_COMPARED: dict[arith.CmpIPredicate, Callable[[Pairs, int], bool | None]] = {
    arith.CmpIPredicate.sgt: lambda pairs, number: pairs.above(number),
    arith.CmpIPredicate.sge: lambda pairs, number: pairs.above(number + 1),
    arith.CmpIPredicate.sle: lambda pairs, number: opposite(pairs.above(number)),
    arith.CmpIPredicate.slt: lambda pairs, number: opposite(pairs.above(number + 1)),
    arith.CmpIPredicate.eq: lambda pairs, number: pairs.equal(number),
    arith.CmpIPredicate.ne: lambda pairs, number: opposite(pairs.equal(number)),
}
"""Whether ``distance + number`` compares so with 0."""
_TURNED = {
    arith.CmpIPredicate.sgt: arith.CmpIPredicate.slt,
    arith.CmpIPredicate.sge: arith.CmpIPredicate.sle,
    arith.CmpIPredicate.sle: arith.CmpIPredicate.sge,
    arith.CmpIPredicate.slt: arith.CmpIPredicate.sgt,
}
_UNSIGNED = {
    arith.CmpIPredicate.ugt: arith.CmpIPredicate.sgt,
    arith.CmpIPredicate.uge: arith.CmpIPredicate.sge,
    arith.CmpIPredicate.ule: arith.CmpIPredicate.sle,
    arith.CmpIPredicate.ult: arith.CmpIPredicate.slt,
}


@dataclass(frozen=True)
class Sum:
    """``queries * query + keys * key + number`` of their places, and terms."""

    queries: int = 0
    keys: int = 0
    number: int = 0
    terms: Terms = NONE
    met: tuple[ir.Value, ...] = ()
    """Numbers of host code that it is made of, in their order: those of the terms, and those that cancel out."""

    def plus(self, other: Sum, sign: int) -> Sum:
        """The sum, or with a sign of -1 the difference."""
        times = dict(self.terms)
        for value, by in other.terms:
            times[value] = times.get(value, 0) + sign * by
        return Sum(
            self.queries + sign * other.queries,
            self.keys + sign * other.keys,
            self.number + sign * other.number,
            tuple((value, by) for value, by in times.items() if by),
            tuple(dict.fromkeys((*self.met, *other.met))),
        )

    def small(self) -> Sum | None:
        """Itself, if it cannot wrap where all that it is made of is below FARTHEST."""
        few = sum(abs(by) for _, by in self.terms) <= _MOST_TERMS
        return self if abs(self.number) < FARTHEST and few else None

    @property
    def is_natural(self) -> bool:
        """Whether it is the same without a sign."""
        known = all(by > 0 and _is_extent(value) for value, by in self.terms)
        return known and min(self.queries, self.keys, self.number) >= 0


@dataclass(frozen=True)
class Distance:
    """A comparison: ``key - query + number + terms`` with 0."""

    predicate: arith.CmpIPredicate
    number: int
    terms: Terms
    met: tuple[ir.Value, ...]
    """Numbers of host code, of which none is so large that a side wraps."""

    def has(self, terms: Terms) -> bool:
        """Whether these are its terms."""
        return set(self.terms) == set(terms)

    def holds(self, pairs: Pairs) -> bool | None:
        """Whether it holds for all of some pairs, by their distance with the terms, or for none."""
        return _COMPARED[self.predicate](pairs, self.number)


@dataclass(frozen=True)
class Scores:
    """Where places are."""

    loops: int
    """How many there are around the scores."""
    single: bool
    """There is one query, at place 0, which comparisons may leave out."""


def compared(op: ir.Operation, step: Step, scores: Scores) -> Distance | None:
    """What a comparison asks for."""
    left, right = (_sum(each, step, scores.loops) for each in op.operands)
    predicate = arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)
    if left is None or right is None:
        return None
    if predicate in _UNSIGNED:
        if not (left.is_natural and right.is_natural):
            return None
        predicate = _UNSIGNED[predicate]
    distance = left.plus(right, -1).small()
    if distance is None:
        return None
    if distance.keys < 0:
        distance, predicate = Sum().plus(distance, -1), _TURNED.get(predicate, predicate)
    if distance.keys != 1 or not (distance.queries == -1 or (scores.single and distance.queries == 0)):
        return None
    return Distance(predicate, distance.number, distance.terms, distance.met)


def opposite(truth: bool | None) -> bool | None:
    """What holds if something does not."""
    return None if truth is None else not truth


def input_of(argument: ir.Value, step: Step) -> Input | None:
    """What an argument of a step's body is."""
    arguments = list(step.body.arguments)
    return step.inputs[arguments.index(argument)] if argument in arguments else None


def comparisons(step: Step) -> Iterable[ir.Operation]:
    """Those of integers in a step's body."""
    return (op.operation for op in step.body.operations if op.operation.name == "arith.cmpi")


def _sum(value: ir.Value, step: Step, loops: int) -> Sum | None:
    """What a value is, if it is a sum of places and of numbers of host code, and cannot wrap."""
    number, loop = literals.whole(value), reducers.counted_loop(value)
    if number is not None:
        return Sum(number=number).small()
    if loop is not None:
        place = step.loops[loop] - loops
        return Sum(queries=int(place == 0), keys=int(place == 1)) if place in (0, 1) else None
    if literals.may_wrap(value.type):
        return None
    op = mlir.owner(value)
    if isinstance(op, ir.Block):
        node = input_of(value, step) if op == step.body else None
        if isinstance(node, Array) and not node.is_memory:
            return _sum(node.memory, step, loops)
        return None if op == step.body else _term(value)
    if op.name in _CASTS:
        found = _sum(op.operands[0], step, loops)
        return found if found is not None and (found.is_natural or op.name in _SIGNED) else None
    if op.name in ("arith.addi", "arith.subi"):
        one, other = (_sum(each, step, loops) for each in op.operands)
        return None if one is None or other is None else one.plus(other, 1 if op.name == "arith.addi" else -1).small()
    return None if op.block == step.body else _term(value)


def _term(value: ir.Value) -> Sum | None:
    """A number of host code, if that has it without waiting for the device."""
    return Sum(terms=((value, 1),), met=(value,)) if _is_at_hand(value) else None


def _is_at_hand(value: ir.Value) -> bool:
    """Whether it is made of arguments, counters of loops and extents: others may come from device memory."""
    op = mlir.owner(value)
    if isinstance(op, ir.Block):
        return op.owner.operation.name == "func.func" or (_counts(op.owner.operation) and value == op.arguments[0])
    return _is_extent(value) or (op.name.split(".")[0] in _QUIET and all(map(_is_at_hand, op.operands)))


def _counts(op: ir.Operation) -> bool:
    return op.name in ("scf.for", "affine.for")


def _is_extent(value: ir.Value) -> bool:
    op = mlir.owner(value)
    return isinstance(op, ir.Operation) and op.name == "memref.dim"
