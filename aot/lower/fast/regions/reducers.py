"""How a linalg body reduces: what is combined with the running value, and how two partial results are.

In: the body of a reduction. Out: a Reducer, or why its order of evaluation cannot be changed.

``%s = arith.addf %x, %acc; yield %s``  becomes  ``Reducer((Fold("arith.addf", %x),), None)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals, neutral
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.operations import Operation

_ROUNDING = ("arith.addf", "arith.mulf")
"""Results depend on the order, noticeably so in f16 and bf16."""
_CASTS = frozenset({"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui"})
_LONG = 64
"""Bits of a running value, at most: threads, warps and blocks leave each other words of that length."""
_STRICT = frozenset({"ogt", "olt", "sgt", "slt", "ugt", "ult"})


@dataclass(frozen=True)
class Fold:
    """One running value combined with an element by an associative operation."""

    op: ir.Operation
    element: ir.Value
    """In the body: what is combined with the running value."""


@dataclass(frozen=True)
class Search:
    """A running extreme and the place where it was first found."""

    compare: ir.Operation
    element: ir.Value
    place: ir.Value
    value_output: int
    swapped: bool
    """Whether the running value is the first operand of the comparison."""


@dataclass(frozen=True)
class Reducer:
    """What the body does."""

    folds: tuple[Fold, ...]
    search: Search | None = None

    @property
    def elements(self) -> tuple[ir.Value, ...]:
        """Values of the body that are computed for each element, in the order of the results."""
        if self.search is None:
            return tuple(fold.element for fold in self.folds)
        pair = (self.search.element, self.search.place)
        return pair if self.search.value_output == 0 else pair[::-1]

    def neutral(self, initial: Sequence[ir.Value]) -> list[ir.Value]:
        """Running values that change nothing; a search starts from the initial ones."""
        if self.search is not None:
            return list(initial)
        return [_constant(fold.op) for fold in self.folds]

    def wins(self, running: ir.Value, element: ir.Value) -> ir.Value:
        """Of a search: whether an element is strictly more extreme than the running one; vectors, too."""
        assert self.search is not None
        pair = (running, element) if self.search.swapped else (element, running)
        return bodies.like(self.search.compare, pair)[0]

    def extreme(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Of a search: the more extreme of two values or vectors; a NaN is none. Of equal ones it is either."""
        assert self.search is not None
        kind = one.type.element_type if isinstance(one.type, ir.VectorType) else one.type
        if isinstance(kind, ir.FloatType) and bodies.is_hardware(kind):
            greater = predicate(self.search.compare) == "ogt"
            return (arith.MaxNumFOp if greater != self.search.swapped else arith.MinNumFOp)(one, other).result
        return arith.SelectOp(self.wins(one, other), other, one).result

    def admit(self, initial: Sequence[ir.Value], element: Sequence[ir.Value]) -> list[ir.Value]:
        """An element as a partial result; in a search the initial ones in place of what is not better."""
        if self.search is None:
            return list(element)
        return self.conclude(initial, element)

    def conclude(self, initial: Sequence[ir.Value], partial: Sequence[ir.Value]) -> list[ir.Value]:
        """The result, from the initial values and what all elements gave."""
        if self.search is None:
            return self.combine(initial, partial)
        wins = _wins(self.search, initial, partial)
        return [arith.SelectOp(wins, new, old).result for old, new in zip(initial, partial, strict=True)]

    def combine(self, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
        """Two partial results together."""
        if self.search is not None:
            return _better(self.search, one, other)
        return [_fold(fold.op, a, b) for fold, a, b in zip(self.folds, one, other, strict=True)]


def read(operation: Operation) -> Reducer | str:
    """The reducer of an operation with reduction loops."""
    if any(isinstance(value.type, ir.IntegerType) and value.type.width > _LONG for value in operation.yielded):
        return "results of more than 64 bits"
    accumulators = [operation.body.arguments[number] for number in operation.outputs]
    dependent = _dependent(operation.body, set(accumulators))
    search = _search(operation, accumulators, dependent)
    if search is not None:
        return Reducer((), search)
    folds = []
    for accumulator, value in zip(accumulators, operation.yielded, strict=True):
        fold = _fold_of(value, accumulator, dependent)
        if fold is None:
            return "a reduction whose order of evaluation matters"
        folds.append(fold)
    return Reducer(tuple(folds))


def is_free(op: ir.Operation) -> bool:
    """Whether reduced loops of a linalg operation may change places, for all that its body does with the elements."""
    body = op.regions[0].blocks[0]
    yielded = list(list(body.operations)[-1].operation.operands)
    accumulators = list(body.arguments)[-len(yielded) :]
    dependent = _dependent(body, set(accumulators))
    return all(_fold_of(value, old, dependent) for value, old in zip(yielded, accumulators, strict=True))


def _dependent(body: ir.Block, start: set[ir.Value]) -> set[ir.Value]:
    found = set(start)
    for op in body.operations:
        if any(value in found for inner in mlir.walk(op.operation) for value in inner.operands):
            found.update(op.operation.results)
    return found


def _fold_of(value: ir.Value, accumulator: ir.Value, dependent: set[ir.Value]) -> Fold | None:
    op = mlir.owner(value)
    if not isinstance(op, ir.Operation) or op.name not in neutral.OPERATIONS:
        return None
    if op.name in _ROUNDING and ir.FloatType(op.results[0].type).width < 32:
        # The source wants them added up in their own type: then the sequential result is the right one.
        return None
    left, right = op.operands
    element = right if left == accumulator else left
    if accumulator not in (left, right) or element in dependent or len(list(accumulator.uses)) != 1:
        return None
    return Fold(op, element)


def _search(operation: Operation, accumulators: list[ir.Value], dependent: set[ir.Value]) -> Search | None:
    """Two selects by one strict comparison of the element with the running value."""
    made_by = [mlir.owner(value) for value in operation.yielded]
    if len(made_by) != 2 or not all(isinstance(op, ir.Operation) and op.name == "arith.select" for op in made_by):
        return None
    conditions = {op.operands[0] for op in made_by}
    compare = mlir.owner(made_by[0].operands[0])
    if (
        len(conditions) != 1
        or not isinstance(compare, ir.Operation)
        or compare.name not in ("arith.cmpf", "arith.cmpi")
    ):
        return None
    for number in (0, 1):
        value, place = accumulators[number], accumulators[1 - number]
        element, index = made_by[number].operands[1], made_by[1 - number].operands[1]
        kept = made_by[number].operands[2] == value and made_by[1 - number].operands[2] == place
        pairs = {(element, value): False, (value, element): True}
        pair = (compare.operands[0], compare.operands[1])
        fresh = element not in dependent and index not in dependent
        if kept and fresh and pair in pairs and _is_strict(compare) and _is_place(index, operation):
            return Search(compare, element, index, number, pairs[pair])
    return None


def counted_loop(value: ir.Value) -> int | None:
    """Which loop a value is the number of, and so grows along; None for others, and for numbers that may wrap."""
    made_by = mlir.owner(value)
    while isinstance(made_by, ir.Operation) and made_by.name in _CASTS:
        if literals.may_wrap(made_by.results[0].type):
            return None
        made_by = mlir.owner(made_by.operands[0])
    if not isinstance(made_by, ir.Operation) or made_by.name != "linalg.index":
        return None
    return int(ir.IntegerAttr(made_by.attributes["dim"]).value)


def _is_place(value: ir.Value, operation: Operation) -> bool:
    """Whether the value grows along the only loop of the reduction: ties are decided by it."""
    loop = counted_loop(value)
    return loop is not None and operation.reduces[loop] and sum(operation.reduces) == 1


def predicate(compare: ir.Operation) -> str:
    """The comparison's name, as ``ogt``."""
    number = int(str(compare.attributes["predicate"]).split(" ")[0])
    kind = arith.CmpFPredicate if compare.name == "arith.cmpf" else arith.CmpIPredicate
    return str(kind(number).name).lower()


def _is_strict(compare: ir.Operation) -> bool:
    name = predicate(compare)
    # Unordered comparisons of floats let every NaN win: what comes after it would matter.
    return name in _STRICT and not (compare.name == "arith.cmpf" and name.startswith("u"))


def _better(search: Search, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    """Of two partial results the more extreme one, and of equal ones that of the smaller place."""
    value, place = search.value_output, 1 - search.value_output
    wins = _wins(search, one, other)
    earlier = arith.CmpIOp(arith.CmpIPredicate.slt, other[place], one[place]).result
    tie = arith.AndIOp(equal(one[value], other[value]), earlier).result
    chosen = arith.OrIOp(wins, tie).result
    return [arith.SelectOp(chosen, b, a).result for a, b in zip(one, other, strict=True)]


def _wins(search: Search, one: Sequence[ir.Value], other: Sequence[ir.Value]) -> ir.Value:
    """Whether the second one is strictly more extreme."""
    pair = (one, other) if search.swapped else (other, one)
    return _compare(search.compare, *pair, search.value_output)


def _compare(op: ir.Operation, left: Sequence[ir.Value], right: Sequence[ir.Value], number: int) -> ir.Value:
    return bodies.like(op, [left[number], right[number]])[0]


def equal(one: ir.Value, other: ir.Value) -> ir.Value:
    """Whether two numbers are equal."""
    kind = one.type.element_type if isinstance(one.type, ir.VectorType) else one.type
    if isinstance(kind, ir.FloatType):
        return arith.CmpFOp(arith.CmpFPredicate.OEQ, one, other).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, one, other).result


def _fold(op: ir.Operation, one: ir.Value, other: ir.Value) -> ir.Value:
    combined = bodies.like(op, [one, other])[0]
    neutral.admit(mlir.owner(combined))
    return combined


def _constant(op: ir.Operation) -> ir.Value:
    kind = op.results[0].type
    return arith.ConstantOp(kind, neutral.of(op.name, kind)).result
