"""Between which numbers a value in loops lies, computed by host code before the loops.

In: an operation in loops. Out: its Nest, which gives for a value the least and the largest number that it has in any
iteration; both are reached, or there is no answer.

In ``scf.for %i = %a to %b step %s`` the value ``%i * 2 + %n`` lies between ``%a * 2 + %n`` and ``%l * 2 + %n``, where
``%l`` is the last index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.general.mappedloop import FORALL, Bound, bounds_of

ONCE = frozenset({"func.func", "builtin.module", "scf.if", "scf.index_switch", "scf.execute_region"})
"""Operations whose bodies run at most once per call."""
_FOR, _PARALLEL, _AFFINE_FOR = "scf.for", "scf.parallel", "affine.for"
_LOOPS = frozenset({_FOR, _PARALLEL, FORALL})
UNSIGNED = "unsignedCmp"
"""Attribute of an ``scf.for`` whose bounds are numbers without a sign."""
_AFFINE = frozenset({"affine.apply", "affine.min", "affine.max"})
_SUMS = frozenset({"arith.addi", "arith.subi", "arith.muli"})


@dataclass(frozen=True)
class Range:
    """The least and the largest number of a value."""

    least: ir.Value
    largest: ir.Value
    varies: bool
    """Whether they may be two numbers."""


@dataclass(frozen=True)
class Sum:
    """A value that is a sum of multiples of indices and of a number that is known before the loops."""

    factors: dict[ir.Value, Bound]
    rest: Bound

    def plus(self, other: Sum) -> Sum:
        factors = dict(self.factors)
        for index, factor in other.factors.items():
            factors[index] = _add(factors[index], factor) if index in factors else factor
        return Sum(factors, _add(self.rest, other.rest))

    def times(self, number: Bound) -> Sum:
        return Sum({i: _multiply(factor, number) for i, factor in self.factors.items()}, _multiply(self.rest, number))


@dataclass(frozen=True)
class Nest:
    """Loops around an operation that is reached in each of their iterations."""

    outermost: ir.Operation
    indices: dict[ir.Value, tuple[Bound, Bound, Bound]]
    """First, end and step of each index: known before the outermost loop."""
    unsigned: frozenset[ir.Value]
    """Indices of loops that compare without a sign."""

    def unless_empty(self, holds: ir.Value) -> ir.Value:
        """Whether the condition holds, or there is no iteration."""
        runs = self._runs()
        if runs is None:
            return holds
        never = arith.XOrIOp(runs, arith.ConstantOp(runs.type, 1).result).result
        return arith.OrIOp(never, holds).result

    def _runs(self) -> ir.Value | None:
        """Whether there is any iteration; None where that is sure."""
        found = None
        for index, (low, high, _) in self.indices.items():
            if not (isinstance(low, int) and isinstance(high, int) and low < high):
                less = arith.CmpIPredicate.ult if index in self.unsigned else arith.CmpIPredicate.slt
                some = arith.CmpIOp(less, value_of(low), value_of(high)).result
                found = some if found is None else arith.AndIOp(found, some).result
        return found

    def is_known(self, value: Bound) -> bool:
        """Whether host code has the number before the loops, without reading memory."""
        return isinstance(value, int) or (_is_outside(value, self.outermost) and is_at_hand(value))

    def holds(self, memory: ir.Value) -> bool:
        """Whether the buffer or tensor is there before the loops."""
        return _is_outside(memory, self.outermost)

    def range(self, value: Bound) -> Range | None:
        """Between which numbers the value lies; None for one that is no sum of indices and numbers known before."""
        return self.range_of(self.sum_of(value))

    def ranges(self, places: ir.AffineMap, operands: list[ir.Value]) -> list[Range | None]:
        """The same for each result of a map."""
        return [self.range_of(self.applied(each, places.n_dims, operands)) for each in places.results]

    def range_of(self, found: Sum | None) -> Range | None:
        """The same for a sum."""
        if found is None:
            return None
        # Indices do not depend on each other: where one has its least multiple, so may all others.
        least = largest = found.rest
        for index, factor in found.factors.items():
            first, last = self._ends(index, factor)
            least, largest = _add(least, first), _add(largest, last)
        return Range(value_of(least), value_of(largest), any(factor != 0 for factor in found.factors.values()))

    def _ends(self, index: ir.Value, factor: Bound) -> tuple[Bound, Bound]:
        """The least and the largest multiple of an index."""
        if factor == 0:
            return 0, 0
        low, high, step = map(_as_index, self.indices[index])
        end = _last(low, high, step, unsigned=index in self.unsigned)
        first, last = _multiply(low, factor), _multiply(end, factor)
        if isinstance(factor, int):
            return (first, last) if factor > 0 else (last, first)
        ends = value_of(first), value_of(last)
        return arith.MinSIOp(*ends).result, arith.MaxSIOp(*ends).result

    def sum_of(self, value: Bound) -> Sum | None:
        """The value as a sum, if it is one."""
        if self.is_known(value):
            number = literals.whole(value) if isinstance(value, ir.Value) else value
            return Sum({}, value if number is None else number)
        if value in self.indices:
            return Sum({value: 1}, 0)
        made_by = mlir.owner(value)
        if not isinstance(made_by, ir.Operation):
            return None
        operands = list(made_by.operands)
        if made_by.name == "affine.apply":
            applied = ir.AffineMapAttr(made_by.attributes["map"]).value
            return self.applied(applied.results[0], applied.n_dims, operands)
        if made_by.name == "arith.index_cast" and operands[0] in self.indices:
            return Sum({operands[0]: 1}, 0)
        return _combined(made_by.name, *map(self.sum_of, operands)) if made_by.name in _SUMS else None

    def applied(self, expression: ir.AffineExpr, dims: int, operands: list[ir.Value]) -> Sum | None:
        """Of an expression of a map with so many dimensions, whose symbols are the operands behind them."""

        def of(expression: ir.AffineExpr) -> Sum | None:
            if isinstance(expression, ir.AffineConstantExpr):
                return Sum({}, int(expression.value))
            if isinstance(expression, ir.AffineDimExpr):
                return self.sum_of(operands[expression.position])
            if isinstance(expression, ir.AffineSymbolExpr):
                return self.sum_of(operands[dims + expression.position])
            name = {ir.AffineAddExpr: "arith.addi", ir.AffineMulExpr: "arith.muli"}.get(type(expression))
            return _combined(name, of(expression.lhs), of(expression.rhs)) if name else None

        return of(expression)


def _combined(name: str, left: Sum | None, right: Sum | None) -> Sum | None:
    if left is None or right is None:
        return None
    if name != "arith.muli":
        return left.plus(right.times(-1) if name == "arith.subi" else right)
    if left.factors and right.factors:
        return None
    return left.times(right.rest) if left.factors else right.times(left.rest)


def around(op: ir.Operation) -> Nest | None:
    """The loops around an operation; None where there are none, or it may be left out in some iteration."""
    parents = list(mlir.parents(op))
    count = next((number for number, parent in enumerate(parents) if not _is_loop(parent)), len(parents))
    if not count or not all(parent.name in ONCE for parent in parents[count:]):
        return None
    outermost = parents[count - 1]
    unsigned = frozenset(
        loop.regions[0].blocks[0].arguments[0] for loop in parents[:count] if UNSIGNED in loop.attributes
    )
    nest = Nest(outermost, {index: bounds for loop in parents[:count] for index, bounds in _indices(loop)}, unsigned)
    return nest if all(map(nest.is_known, (b for each in nest.indices.values() for b in each))) else None


def _is_loop(op: ir.Operation) -> bool:
    """Whether the operation is a loop whose bounds are told by its operands."""
    return op.name in _LOOPS or (op.name == _AFFINE_FOR and all(bound is not None for bound in _affine_bounds(op)))


def _affine_bounds(loop: ir.Operation) -> tuple[Bound | None, Bound | None, int]:
    """First, end and step of an ``affine.for``; None for what is computed."""
    count, operands = next(iter(ir.DenseI32ArrayAttr(loop.attributes["operandSegmentSizes"]))), list(loop.operands)
    low = _only(ir.AffineMapAttr(loop.attributes["lowerBoundMap"]).value, operands)
    high = _only(ir.AffineMapAttr(loop.attributes["upperBoundMap"]).value, operands[count:])
    return low, high, int(ir.IntegerAttr(loop.attributes["step"]).value)


def _only(bound: ir.AffineMap, operands: list[ir.Value]) -> Bound | None:
    """The number that the map is, or the operand."""
    expression = bound.results[0]
    if len(bound.results) > 1:
        return None
    if isinstance(expression, ir.AffineConstantExpr):
        return int(expression.value)
    if isinstance(expression, ir.AffineDimExpr | ir.AffineSymbolExpr):
        return operands[expression.position + bound.n_dims * isinstance(expression, ir.AffineSymbolExpr)]
    return None


def _indices(loop: ir.Operation) -> Iterator[tuple[ir.Value, tuple[Bound, Bound, Bound]]]:
    arguments = list(loop.regions[0].blocks[0].arguments)
    if loop.name == FORALL:
        bounds = bounds_of(loop)
    elif loop.name == _AFFINE_FOR:
        low, high, step = _affine_bounds(loop)
        assert low is not None
        assert high is not None
        bounds = ((low, high, step),)
    else:
        count = 1 if loop.name == _FOR else len(arguments)
        bounds = tuple(
            zip(*(list(loop.operands)[place * count : (place + 1) * count] for place in range(3)), strict=True)
        )
    yield from zip(arguments, bounds, strict=False)


def is_at_hand(value: ir.Value) -> bool:
    """Whether host code has the number without reading memory, for which it would have to wait."""
    made_by = mlir.owner(value)
    if not isinstance(made_by, ir.Operation):
        return bool(made_by.owner.operation.name == "func.func")
    if made_by.name == "memref.dim":
        return True
    counts = made_by.name.startswith(("arith.", "index.")) or made_by.name in _AFFINE
    return counts and all(map(is_at_hand, made_by.operands))


def _is_outside(value: ir.Value, loop: ir.Operation) -> bool:
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Operation):
        return all(parent != loop for parent in mlir.parents(made_by))
    return made_by.owner.operation != loop and all(parent != loop for parent in mlir.parents(made_by.owner.operation))


def _as_index(bound: Bound) -> ir.Value:
    """A bound of a loop, which may run in fewer bits."""
    value, index = value_of(bound), ir.IndexType.get()
    return value if value.type == index else arith.IndexCastOp(index, value).result


def _last(low: ir.Value, high: ir.Value, step: ir.Value, *, unsigned: bool) -> ir.Value:
    """The last index of a loop that has one."""
    divide = arith.DivUIOp if unsigned else arith.DivSIOp
    one = value_of(1)
    if literals.whole(step) == 1:
        return arith.SubIOp(high, one).result
    before = arith.SubIOp(arith.SubIOp(high, low).result, one).result
    whole = arith.MulIOp(divide(before, arith.MaxSIOp(step, one).result).result, step).result
    return arith.AddIOp(low, whole).result


def _add(left: Bound, right: Bound) -> Bound:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if 0 in (left, right):
        return left if right == 0 else right
    return arith.AddIOp(value_of(left), value_of(right)).result


def _multiply(left: Bound, right: Bound) -> Bound:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if 0 in (left, right):
        return 0
    if 1 in (left, right):
        return left if right == 1 else right
    return arith.MulIOp(value_of(left), value_of(right)).result


def value_of(part: Bound) -> ir.Value:
    """The number as a value at the insertion point."""
    return arith.ConstantOp(ir.IndexType.get(), part).result if isinstance(part, int) else part
