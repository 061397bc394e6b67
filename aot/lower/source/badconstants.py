"""Constants that mean nothing where they stand, and that MLIR takes, or ends the process of.

In: a module. Out: LoweringError where ``tensor.dim`` or ``memref.dim`` asks for a dimension that there is not, where an
affine map divides by a number that is not positive, where a loop does not go forwards and never ends, where bits are
shifted by more than 64 bits can say, or windows of a convolution go backwards, out of its input.

>>> check(module)                                                       # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis import literals
from aot.lower.checks.slicecheck import mixed

_DIMENSIONS = frozenset({"tensor.dim", "memref.dim"})
_APPLIED = frozenset({"affine.apply", "affine.min", "affine.max"})
"""Operations whose operands are those of their map."""
_MAPS = ("map", "lowerBoundMap", "upperBoundMap", "lowerBoundsMap", "upperBoundsMap")
_INDEXING = "indexing_maps"
_FOR, _FORALL, _PARALLEL = "scf.for", "scf.forall", "affine.parallel"
_SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")
_LARGEST_SHIFT = (1 << 64) - 1
"""Beyond it MLIR's simplifications end the process. Less, but more than a type's bits, may stand behind a test."""
_WINDOWS = ("strides", "dilations")
_DIVISIONS = (ir.AffineModExpr, ir.AffineFloorDivExpr, ir.AffineCeilDivExpr)


def check(module: mlir.Module) -> None:
    """Refuse them."""
    problems = [
        mlir.diagnostic_at(op, f"'{op.name}': {problem}")
        for op in mlir.walk(module)
        for problem in dict.fromkeys(_problems(op))
    ]
    if problems:
        raise LoweringError(f"{module.context.aot_path}: constants without a meaning", diagnostics=tuple(problems))


def _problems(op: mlir.Operation) -> Iterator[str]:
    if op.name in _DIMENSIONS:
        yield from _of_dimension(op)
    elif op.name in (_FOR, _FORALL, _PARALLEL):
        yield from (f"step {step} is not positive" for step in _steps(op) if step is not None and step <= 0)
    elif op.name in _SHIFTS:
        yield from _of_shift(op)
    elif op.name.startswith("linalg."):
        yield from _of_windows(op)
    if op.name.startswith(("affine.", "linalg.")):
        yield from _of_maps(op)


def _steps(op: mlir.Operation) -> Iterator[int | None]:
    """Those of a loop that are constants."""
    if op.name == _FOR:
        yield literals.whole(op.operands[2])
    elif op.name == _PARALLEL:
        yield from (ir.IntegerAttr(each).value for each in op.attributes["steps"])
    else:
        counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        steps = mixed(ir.DenseI64ArrayAttr(op.attributes["staticStep"]), list(op.operands)[sum(counts[:2]) :])
        yield from (each if isinstance(each, int) else literals.whole(each) for each in steps)


def _of_dimension(op: mlir.Operation) -> Iterator[str]:
    kind, number = ir.ShapedType(op.operands[0].type), literals.whole(op.operands[1])
    if number is not None and kind.has_rank and not 0 <= number < kind.rank:
        yield f"'{kind}' has no dimension {number}"


def _of_shift(op: mlir.Operation) -> Iterator[str]:
    amount = literals.element(op.operands[1])
    kind = amount.type if isinstance(amount, ir.IntegerAttr) else None
    if isinstance(kind, ir.IntegerType) and kind.width > _LARGEST_SHIFT.bit_length():
        number = literals.number(ir.IntegerAttr(amount))
        if not 0 <= number <= _LARGEST_SHIFT:
            yield f"a shift by {number} takes all bits of '{kind}' away"


def _of_windows(op: mlir.Operation) -> Iterator[str]:
    for name in _WINDOWS:
        if name in op.attributes and any(int(step) <= 0 for step in ir.DenseIntElementsAttr(op.attributes[name])):
            yield f"{name} are positive"


def _of_maps(op: mlir.Operation) -> Iterator[str]:
    operands = list(op.operands) if op.name in _APPLIED else []
    for applied in _maps(op):
        for expression in applied.results:
            for divisor in _divisors(expression):
                number = _number(divisor, applied, operands)
                if number is not None and number <= 0:
                    yield f"a division by {number} in '{applied}'; divisors are positive"


def _maps(op: mlir.Operation) -> Iterator[ir.AffineMap]:
    yield from (ir.AffineMapAttr(op.attributes[name]).value for name in _MAPS if name in op.attributes)
    yield from (ir.AffineMapAttr(each).value for each in op.attributes.get(_INDEXING, ()))


def _divisors(expression: ir.AffineExpr) -> Iterator[ir.AffineExpr]:
    if isinstance(expression, ir.AffineBinaryExpr):
        if isinstance(expression, _DIVISIONS):
            yield expression.rhs
        yield from _divisors(expression.lhs)
        yield from _divisors(expression.rhs)


def _number(expression: ir.AffineExpr, applied: ir.AffineMap, operands: Sequence[ir.Value]) -> int | None:
    if isinstance(expression, ir.AffineConstantExpr):
        return int(expression.value)
    if operands and isinstance(expression, ir.AffineSymbolExpr):
        return literals.whole(operands[applied.n_dims + expression.position])
    return None
