"""Between which numbers a value in loops lies, computed by host code before the loops.

In: an operation in loops. Out: its Nest, which gives for a value the least and the largest number that it has in any
iteration; both are reached, or there is no answer.

In ``scf.for %i = %a to %b step %s`` the value ``%i * 2 + %n`` lies between ``%a * 2 + %n`` and ``%l * 2 + %n``, where
``%l`` is the last index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir
from aot.lower import literals
from aot.lower.mappedloop import FORALL, Bound, bounds_of

ONCE = frozenset({"func.func", "builtin.module", "scf.if", "scf.index_switch", "scf.execute_region"})
"""Operations whose bodies run at most once per call."""
_FOR, _PARALLEL = "scf.for", "scf.parallel"
_LOOPS = frozenset({_FOR, _PARALLEL, FORALL})
_AFFINE = frozenset({"affine.apply", "affine.min", "affine.max"})
_MAKE: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {
    "arith.addi": lambda left, right: arith.AddIOp(left, right).result,
    "arith.subi": lambda left, right: arith.SubIOp(left, right).result,
    "arith.muli": lambda left, right: arith.MulIOp(left, right).result,
}


@dataclass(frozen=True)
class Range:
    """The least and the largest number of a value, and the indices that decide which it has."""

    least: ir.Value
    largest: ir.Value
    indices: frozenset[ir.Value] = frozenset()


@dataclass(frozen=True)
class Nest:
    """Loops around an operation that is reached in each of their iterations."""

    outermost: ir.Operation
    indices: dict[ir.Value, tuple[Bound, Bound, Bound]]
    """First, end and step of each index: known before the outermost loop."""

    def runs(self) -> ir.Value | None:
        """Whether there is any iteration; None where that is sure."""
        found = None
        for low, high, _ in self.indices.values():
            if not (isinstance(low, int) and isinstance(high, int) and low < high):
                some = arith.CmpIOp(arith.CmpIPredicate.slt, value_of(low), value_of(high)).result
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
        if self.is_known(value):
            number = value_of(value)
            return Range(number, number)
        assert isinstance(value, ir.Value)
        if value in self.indices:
            low, high, step = map(value_of, self.indices[value])
            return Range(low, _last(low, high, step), frozenset({value}))
        made_by = mlir.owner(value)
        if not isinstance(made_by, ir.Operation):
            return None
        if made_by.name == "affine.apply":
            return self._applied(ir.AffineMapAttr(made_by.attributes["map"]).value, list(made_by.operands))
        return self._made(made_by.name, *map(self.range, made_by.operands)) if made_by.name in _MAKE else None

    def _made(self, name: str, left: Range | None, right: Range | None) -> Range | None:
        # Both ends are reached only where one part can have any of its numbers whichever the other has.
        if left is None or right is None or left.indices & right.indices:
            return None
        make, indices = _MAKE[name], left.indices | right.indices
        if not indices:
            number = make(left.least, right.least)
            return Range(number, number)
        if name == "arith.muli":
            if left.indices and right.indices:
                return None
            ends = [make(a, b) for a in _ends(left) for b in _ends(right)]
            return Range(arith.MinSIOp(*ends).result, arith.MaxSIOp(*ends).result, indices)
        first, last = (right.largest, right.least) if name == "arith.subi" else (right.least, right.largest)
        return Range(make(left.least, first), make(left.largest, last), indices)

    def _applied(self, applied: ir.AffineMap, operands: list[ir.Value]) -> Range | None:
        """Of the one expression of a map."""

        def of(expression: ir.AffineExpr) -> Range | None:
            if isinstance(expression, ir.AffineConstantExpr):
                return self.range(int(expression.value))
            if isinstance(expression, ir.AffineDimExpr):
                return self.range(operands[expression.position])
            if isinstance(expression, ir.AffineSymbolExpr):
                return self.range(operands[applied.n_dims + expression.position])
            name = {ir.AffineAddExpr: "arith.addi", ir.AffineMulExpr: "arith.muli"}.get(type(expression))
            return self._made(name, of(expression.lhs), of(expression.rhs)) if name else None

        return of(applied.results[0])


def around(op: ir.Operation) -> Nest | None:
    """The loops around an operation; None where there are none, or it may be left out in some iteration."""
    parents = list(mlir.parents(op))
    count = next((number for number, parent in enumerate(parents) if parent.name not in _LOOPS), len(parents))
    if not count or not all(parent.name in ONCE for parent in parents[count:]):
        return None
    outermost = parents[count - 1]
    nest = Nest(outermost, {index: bounds for loop in parents[:count] for index, bounds in _indices(loop)})
    return nest if all(map(nest.is_known, (b for each in nest.indices.values() for b in each))) else None


def _indices(loop: ir.Operation) -> Iterator[tuple[ir.Value, tuple[Bound, Bound, Bound]]]:
    arguments = list(loop.regions[0].blocks[0].arguments)
    if loop.name == FORALL:
        bounds = bounds_of(loop)
    else:
        count = 1 if loop.name == _FOR else len(arguments)
        low, high, step = (list(loop.operands)[place * count : (place + 1) * count] for place in range(3))
        bounds = tuple(zip(low, high, step, strict=True))
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


def _last(low: ir.Value, high: ir.Value, step: ir.Value) -> ir.Value:
    """The last index of a loop that has one."""
    one = value_of(1)
    if literals.whole(step) == 1:
        return arith.SubIOp(high, one).result
    before = arith.SubIOp(arith.SubIOp(high, low).result, one).result
    whole = arith.MulIOp(arith.DivSIOp(before, arith.MaxSIOp(step, one).result).result, step).result
    return arith.AddIOp(low, whole).result


def _ends(part: Range) -> list[ir.Value]:
    return [part.least, part.largest] if part.indices else [part.least]


def value_of(part: Bound) -> ir.Value:
    """The number as a value at the insertion point."""
    return arith.ConstantOp(ir.IndexType.get(), part).result if isinstance(part, int) else part
