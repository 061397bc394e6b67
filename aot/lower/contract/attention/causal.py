"""Scores of which a query sees those of keys up to its own place: known from the source's own operations.

In: what the source makes of a score. Out: whether that is minus infinity for all keys behind the query's place, and an
epilogue for the others, whose comparisons of places are known: a kernel leaves out the keys that no query of a block
sees, and compares where some do.

``select(key <= query, x, -inf)``, ``x + select(key > query, -inf, 0)`` and both in f16, made wide, are all ``x``; what
else is compared (``key > query - 256``, other masks) stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.products.epilogue import Epilogue, Input, Result, Step
from aot.lower.fast.regions import reducers

_LOW = -1e30
"""Scores are products of numbers with 16 bits; what lies so far below them has no weight beside them."""
_LOWEST_HALF = -65504.0
"""The least number of f16, which stands for minus infinity there."""
_FARTHEST = 1 << 30
"""Sums with numbers below it do not wrap in 32 bits: no array has so many places along a dimension of scores."""
_SIGNED = frozenset({"arith.index_cast", "arith.extsi"})
_CASTS = _SIGNED | {"arith.index_castui", "arith.extui"}
_ROUNDINGS = frozenset({"arith.extf", "arith.truncf"})


@dataclass(frozen=True)
class _Pairs:
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


_BEHIND, _SEEN, _OWN = _Pairs(1, None), _Pairs(None, 0), _Pairs(0, 0)
_COMPARED: dict[arith.CmpIPredicate, Callable[[_Pairs, int], bool | None]] = {
    arith.CmpIPredicate.sgt: lambda pairs, number: pairs.above(number),
    arith.CmpIPredicate.sge: lambda pairs, number: pairs.above(number + 1),
    arith.CmpIPredicate.sle: lambda pairs, number: _not(pairs.above(number)),
    arith.CmpIPredicate.slt: lambda pairs, number: _not(pairs.above(number + 1)),
    arith.CmpIPredicate.eq: lambda pairs, number: pairs.equal(number),
    arith.CmpIPredicate.ne: lambda pairs, number: _not(pairs.equal(number)),
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
class _Sum:
    """``queries * query + keys * key + number``, of their places."""

    queries: int = 0
    keys: int = 0
    number: int = 0

    def plus(self, other: _Sum, sign: int) -> _Sum:
        return _Sum(
            self.queries + sign * other.queries, self.keys + sign * other.keys, self.number + sign * other.number
        )

    def small(self) -> _Sum | None:
        """Itself, if it cannot wrap."""
        return self if abs(self.number) < _FARTHEST else None

    @property
    def is_natural(self) -> bool:
        """Whether it is the same without a sign."""
        return min(self.queries, self.keys, self.number) >= 0


def visible(epilogue: Epilogue, loops: int) -> Epilogue | None:
    """The epilogue of scores that are seen; None where others are, too. ``loops``: those around the scores."""
    ((array, made),) = epilogue.stores
    for exact in (True, False):
        found = _Finder(loops, exact=exact)
        # A query that sees nothing, or nothing but low numbers, has all keys that are as low, behind it, too.
        if found.hides(made) and (exact or not (epilogue.read() or found.may_hide_own(made))):
            return Epilogue(epilogue.initial, ((array, found.seen(made)),))
    return None


class _Finder:
    """Looks at what a score becomes, from its end."""

    def __init__(self, loops: int, *, exact: bool) -> None:
        """``exact``: minus infinity alone is nothing; else low numbers are, too."""
        self.loops, self.exact = loops, exact
        self.made: dict[Step, Step] = {}

    def hides(self, node: Input | None, *, added: bool = False) -> bool:
        """Whether all scores of keys behind the query become nothing; ``added``: something is added to them."""
        return isinstance(node, Result) and self._is_nothing(node.step.yielded[node.number], node.step, added=added)

    def _is_nothing(self, value: ir.Value, step: Step, *, added: bool) -> bool:
        op = mlir.owner(value)
        if isinstance(op, ir.Block):
            return self.hides(_input(value, step), added=added)
        if op.name in _ROUNDINGS:
            return self._is_nothing(op.operands[0], step, added=added)
        if op.name == "arith.addf":
            return any(self._is_nothing(each, step, added=True) for each in op.operands)
        if op.name == "arith.select":
            condition, *both = op.operands
            truth = self._truth(condition, step, _BEHIND)
            asked = both if truth is None else [both[0] if truth else both[1]]
            return all(self._is_nothing(each, step, added=added) for each in asked)
        number = literals.real(value)
        return number is not None and number <= self._least(value.type, added=added)

    def may_hide_own(self, node: Input | None) -> bool:
        """Whether the score of a query's own key may become nothing, or large: low numbers might have weight then."""
        return isinstance(node, Result) and self._may_be_nothing(node.step.yielded[node.number], node.step)

    def _may_be_nothing(self, value: ir.Value, step: Step) -> bool:
        op = mlir.owner(value)
        if isinstance(op, ir.Block):
            return self.may_hide_own(_input(value, step))
        asked = list(op.operands)
        if op.name == "arith.select":
            condition, *asked = asked
            truth = self._truth(condition, step, _OWN)
            asked = asked if truth is None else [asked[0] if truth else asked[1]]
        number = literals.real(value)
        return (number is not None and -abs(number) <= self._least(value.type, added=False)) or any(
            self._may_be_nothing(each, step) for each in asked
        )

    def _least(self, kind: ir.Type, *, added: bool) -> float:
        """Numbers that are none: in f16, which has no low ones, scores that are added may be as large."""
        is_half = isinstance(kind, ir.F16Type)
        return float("-inf") if self.exact or (is_half and added) else _LOWEST_HALF if is_half else _LOW

    def _truth(self, condition: ir.Value, step: Step, pairs: _Pairs) -> bool | None:
        """Whether a condition holds for all of some pairs, or for none."""
        op = mlir.owner(condition)
        if isinstance(op, ir.Block):
            node = _input(condition, step)
            return self._truth(node.step.yielded[node.number], node.step, pairs) if isinstance(node, Result) else None
        if op.name == "arith.cmpi":
            return self._compared(op, step, pairs)
        if op.name == "arith.constant":
            return literals.whole(condition) != 0
        if op.name not in ("arith.andi", "arith.ori", "arith.xori"):
            return None
        one, other = (self._truth(each, step, pairs) for each in op.operands)
        if op.name == "arith.xori":
            return None if one is None or other is None else one != other
        decides = op.name == "arith.ori"
        return decides if decides in (one, other) else None if None in (one, other) else not decides

    def _compared(self, op: ir.Operation, step: Step, pairs: _Pairs) -> bool | None:
        left, right = (self._sum(each, step) for each in op.operands)
        predicate = arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)
        if left is None or right is None:
            return None
        if predicate in _UNSIGNED:
            if not (left.is_natural and right.is_natural):
                return None
            predicate = _UNSIGNED[predicate]
        distance = left.plus(right, -1)
        if distance.keys < 0:
            distance, predicate = _Sum().plus(distance, -1), _TURNED.get(predicate, predicate)
        return _COMPARED[predicate](pairs, distance.number) if (distance.queries, distance.keys) == (-1, 1) else None

    def _sum(self, value: ir.Value, step: Step) -> _Sum | None:
        """What a value is, if it is a sum of places and cannot wrap."""
        number, loop = literals.whole(value), reducers.counted_loop(value)
        if number is not None:
            return _Sum(number=number).small()
        if loop is not None:
            place = step.loops[loop] - self.loops
            return _Sum(queries=int(place == 0), keys=int(place == 1)) if place in (0, 1) else None
        op = mlir.owner(value)
        if isinstance(op, ir.Block) or literals.may_wrap(value.type):
            return None
        if op.name in _CASTS:
            found = self._sum(op.operands[0], step)
            return found if found is not None and (found.is_natural or op.name in _SIGNED) else None
        if op.name not in ("arith.addi", "arith.subi"):
            return None
        one, other = (self._sum(each, step) for each in op.operands)
        return None if one is None or other is None else one.plus(other, 1 if op.name == "arith.addi" else -1).small()

    # ---------------------------------------------------------------- the other keys

    def seen(self, node: Input) -> Input:
        """What a score becomes where the key is not behind the query."""
        if not isinstance(node, Result):
            return node
        step = self._known(node.step)
        value = step.yielded[node.number]
        while not isinstance(op := mlir.owner(value), ir.Block) and op.name == "arith.select":
            truth = self._truth(op.operands[0], step, _SEEN)
            if truth is None:
                break
            value = op.operands[1] if truth else op.operands[2]
        return Result(replace(step, yielded=(value,)), 0)

    def _known(self, step: Step) -> Step:
        """The step, with all comparisons whose outcome is known."""
        if step not in self.made:
            compared = [op.operation for op in step.body.operations if op.operation.name == "arith.cmpi"]
            truths = {op.results[0]: self._compared(op, step, _SEEN) for op in compared}
            known = tuple((value, truth) for value, truth in truths.items() if truth is not None)
            inputs = tuple(None if each is None else self.seen(each) for each in step.inputs)
            self.made[step] = replace(step, inputs=inputs, known=known)
        return self.made[step]


def _input(argument: ir.Value, step: Step) -> Input | None:
    """What an argument of a step's body is."""
    arguments = list(step.body.arguments)
    return step.inputs[arguments.index(argument)] if argument in arguments else None


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth
