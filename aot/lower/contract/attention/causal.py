"""Scores of which a query sees those of keys near its own place: known from the source's own operations.

In: what the source makes of a score. Out: a Band: the keys beyond which it makes minus infinity of all scores, behind
the query's place and, of a sliding window, before it; and an epilogue for those between, whose comparisons of places
are known. A kernel leaves out the keys that no query of a block sees, and compares where some do.

``select(key <= query, x, -inf)``, ``x + select(key > query, -inf, 0)`` and both in f16, made wide, are all ``x``, and
so is ``select(key <= query and key > query - 256, x, -inf)``; what else is compared stays what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mlir import ir

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.contract.attention import placesums
from aot.lower.contract.attention.placesums import NONE, Distance, Pairs, Scores, Terms
from aot.lower.contract.products.epilogue import Epilogue, Input, Result, Step

_LOW = -1e30
"""Scores are products of numbers with 16 bits; what lies so far below them has no weight beside them."""
_LOWEST_HALF = -65504.0
"""The least number of f16, which stands for minus infinity there."""
_ROUNDINGS = frozenset({"arith.extf", "arith.truncf"})
_OWN = Pairs(0, 0)


@dataclass(frozen=True, eq=False)
class Band:
    """Keys that a query may see, by their distance from its place: of the key and the query, with the terms."""

    epilogue: Epilogue
    """What becomes of their scores."""
    last: int
    first: int | None
    """None: all keys before the last one."""
    terms: Terms
    met: tuple[ir.Value, ...]
    """Numbers of host code that comparisons are made of: those of the terms, and those that cancel out."""
    exact: bool
    """Scores of all others are minus infinity; else some are low numbers, which count where there is nothing else."""


def visible(epilogue: Epilogue, scores: Scores) -> Band | None:
    """The keys that queries see; None where it may be all of them."""
    ((array, made),) = epilogue.stores
    for exact in (True, False):
        for terms in _terms(made, scores):
            finder = _Finder(scores, terms, exact=exact)
            band = finder.band(made)
            if band is None or not (exact or finder.is_safe(made, band, epilogue)):
                continue
            seen = Epilogue(epilogue.initial, ((array, _Known(finder, band).seen(made)),))
            return Band(seen, band.largest or 0, band.least, terms, finder.met(made), exact)
    return None


def _terms(made: Input, scores: Scores) -> list[Terms]:
    """Those of the source's comparisons; none first."""
    found = {each.terms: None for each in _distances(made, scores)}
    return sorted(found, key=len)


def _distances(node: Input | None, scores: Scores) -> Iterator[Distance]:
    """All that comparisons of a score's operations ask for."""
    if isinstance(node, Result):
        for op in placesums.comparisons(node.step):
            distance = placesums.compared(op, node.step, scores)
            if distance is not None:
                yield distance
        for each in node.step.inputs:
            yield from _distances(each, scores)


class _Finder:
    """Looks at what a score becomes, from its end."""

    def __init__(self, scores: Scores, terms: Terms, *, exact: bool) -> None:
        """``terms``: of distances; ``exact``: minus infinity alone is nothing; else low numbers are, too."""
        self.scores, self.terms, self.exact = scores, terms, exact

    def band(self, made: Input) -> Pairs | None:
        """The pairs whose scores may be something: none is farther behind, and none before if there is a window."""
        known = {each.number for each in _distances(made, self.scores) if each.has(self.terms)}
        numbers = sorted({more - number for number in known for more in (-1, 0, 1)})
        last = next((each for each in numbers if self.hides(made, Pairs(each + 1, None))), None)
        if last is None:
            return None
        before = (each for each in reversed(numbers) if each <= last)
        return Pairs(next((each for each in before if self.hides(made, Pairs(None, each - 1))), None), last)

    def met(self, made: Input) -> tuple[ir.Value, ...]:
        """Numbers of host code that the comparisons are made of."""
        known = (each.met for each in _distances(made, self.scores) if each.has(self.terms))
        return tuple(dict.fromkeys(itertools.chain(*known)))

    def is_safe(self, made: Input, band: Pairs, epilogue: Epilogue) -> bool:
        """Whether low numbers count nowhere, if each query has a key of the band."""
        if self.terms == NONE and band == Pairs(None, 0):
            # A query that sees nothing, or nothing but low numbers, has all keys that are as low, behind it, too.
            band = _OWN
        reachable = bool(self.terms) or (band.largest or 0) >= 0
        return reachable and not epilogue.read() and not self.may_hide(made, band)

    def hides(self, node: Input | None, pairs: Pairs, *, added: bool = False) -> bool:
        """Whether all scores of some pairs become nothing; ``added``: something is added to them."""
        if not isinstance(node, Result):
            return False
        return self._is_nothing(node.step.yielded[node.number], node.step, pairs, added=added)

    def _is_nothing(self, value: ir.Value, step: Step, pairs: Pairs, *, added: bool) -> bool:
        op = mlir.owner(value)
        if isinstance(op, ir.Block):
            return self.hides(placesums.input_of(value, step), pairs, added=added)
        if op.name in _ROUNDINGS:
            return self._is_nothing(op.operands[0], step, pairs, added=added)
        if op.name == "arith.addf":
            return any(self._is_nothing(each, step, pairs, added=True) for each in op.operands)
        if op.name == "arith.select":
            condition, *both = op.operands
            truth = self.truth(condition, step, pairs)
            asked = both if truth is None else [both[0] if truth else both[1]]
            return all(self._is_nothing(each, step, pairs, added=added) for each in asked)
        number = literals.real(value)
        return number is not None and number <= self._least(value.type, added=added)

    def may_hide(self, node: Input | None, pairs: Pairs) -> bool:
        """Whether the score of one of the pairs may become nothing, or large: low numbers might have weight then."""
        return isinstance(node, Result) and self._may_be_nothing(node.step.yielded[node.number], node.step, pairs)

    def _may_be_nothing(self, value: ir.Value, step: Step, pairs: Pairs) -> bool:
        op = mlir.owner(value)
        if isinstance(op, ir.Block):
            return self.may_hide(placesums.input_of(value, step), pairs)
        asked = list(op.operands)
        if op.name == "arith.select":
            condition, *asked = asked
            truth = self.truth(condition, step, pairs)
            asked = asked if truth is None else [asked[0] if truth else asked[1]]
        number = literals.real(value)
        return (number is not None and -abs(number) <= self._least(value.type, added=False)) or any(
            self._may_be_nothing(each, step, pairs) for each in asked
        )

    def _least(self, kind: ir.Type, *, added: bool) -> float:
        """Numbers that are none: in f16, which has no low ones, scores that are added may be as large."""
        is_half = isinstance(kind, ir.F16Type)
        return float("-inf") if self.exact or (is_half and added) else _LOWEST_HALF if is_half else _LOW

    def truth(self, condition: ir.Value, step: Step, pairs: Pairs) -> bool | None:
        """Whether a condition holds for all of some pairs, or for none."""
        op = mlir.owner(condition)
        if isinstance(op, ir.Block):
            node = placesums.input_of(condition, step)
            return self.truth(node.step.yielded[node.number], node.step, pairs) if isinstance(node, Result) else None
        if op.name == "arith.cmpi":
            distance = placesums.compared(op, step, self.scores)
            return distance.holds(pairs) if distance is not None and distance.has(self.terms) else None
        if op.name == "arith.constant":
            return literals.whole(condition) != 0
        if op.name not in ("arith.andi", "arith.ori", "arith.xori"):
            return None
        one, other = (self.truth(each, step, pairs) for each in op.operands)
        if op.name == "arith.xori":
            return None if one is None or other is None else one != other
        decides = op.name == "arith.ori"
        return decides if decides in (one, other) else None if None in (one, other) else not decides


class _Known:
    """Makes of a score's operations those of the keys of a band."""

    def __init__(self, finder: _Finder, band: Pairs) -> None:
        self.finder, self.band = finder, band
        self.made: dict[Step, Step] = {}

    def seen(self, node: Input) -> Input:
        """What a score becomes there."""
        if not isinstance(node, Result):
            return node
        step = self._known(node.step)
        value = step.yielded[node.number]
        while not isinstance(op := mlir.owner(value), ir.Block) and op.name == "arith.select":
            truth = self.finder.truth(op.operands[0], step, self.band)
            if truth is None:
                break
            value = op.operands[1] if truth else op.operands[2]
        return Result(replace(step, yielded=(value,)), 0)

    def _known(self, step: Step) -> Step:
        """The step, with all comparisons whose outcome is known."""
        if step not in self.made:
            truths = {
                op.results[0]: self.finder.truth(op.results[0], step, self.band) for op in placesums.comparisons(step)
            }
            known = tuple((value, truth) for value, truth in truths.items() if truth is not None)
            inputs = tuple(None if each is None else self.seen(each) for each in step.inputs)
            self.made[step] = replace(step, inputs=inputs, known=known)
        return self.made[step]
