"""Largest and smallest floating-point numbers, found among integers.

In: loops that carry a maximum or minimum of floats. Out: loops that carry an integer that is ordered in the same way:
the number's bits, those below the sign inverted for negative ones.

Comparing floats keeps a loop from being vectorised well, because of NaN and of the zeros' signs. With integers -0 is
below +0, and a NaN becomes the integer that wins (``maximumf``: the result is NaN) or
loses (``maxnumf``: it is left out).
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from aot import mlir
from aot.lower.checks import looprange
from aot.lower.cpu.reduce import combiners

_WIDTHS = (32, 64)


@dataclass(frozen=True)
class _Extreme:
    """One of the four operations."""

    largest: bool
    nan_wins: bool


_KINDS = {
    "arith.maximumf": _Extreme(largest=True, nan_wins=True),
    "arith.minimumf": _Extreme(largest=False, nan_wins=True),
    "arith.maxnumf": _Extreme(largest=True, nan_wins=False),
    "arith.minnumf": _Extreme(largest=False, nan_wins=False),
}


def to_integers(module: ir.Module) -> None:
    """Rewrite all loops that carry one such value and nothing else."""
    for loop in [op for op in mlir.walk(module) if op.name == "scf.for" and len(op.results) == 1]:
        found = combiners(loop)
        if found and found[0].name in _KINDS and getattr(loop.results[0].type, "width", 0) in _WIDTHS:
            _rewrite(loop, found[0])


def _rewrite(loop: ir.Operation, combiner: ir.Operation) -> None:
    extreme = _KINDS[combiner.name]
    lower, upper, step, init = list(loop.operands)
    old = loop.regions[0].blocks[0]
    carried = old.arguments[1]
    value = next(each for each in combiner.operands if each != carried)
    with ir.InsertionPoint(loop), loop.location:
        made = scf.ForOp(lower, upper, step, [_key(init, extreme)])
        if looprange.UNSIGNED in loop.attributes:
            made.operation.attributes[looprange.UNSIGNED] = ir.UnitAttr.get()
        loop.results[0].replace_all_uses_with(_number(made.results[0], loop.results[0].type))
    with ir.InsertionPoint(combiner), combiner.location:
        pick = arith.MaxSIOp if extreme.largest else arith.MinSIOp
        result = pick(_key(value, extreme), made.inner_iter_args[0]).result
    combiner.results[0].replace_all_uses_with(init)
    combiner.erase()
    old.arguments[0].replace_all_uses_with(made.induction_variable)
    with ir.InsertionPoint(made.body):
        end = scf.YieldOp([result]).operation
    for op in [each.operation for each in old.operations][:-1]:
        op.move_before(end)
    loop.erase()


def _integer(kind: ir.Type) -> ir.Type:
    return ir.IntegerType.get_signless(kind.width)


def _flipped(bits: ir.Value) -> ir.Value:
    """The same in both directions: bits below the sign inverted where the sign is set."""
    kind = bits.type
    sign = arith.ShRSIOp(bits, arith.ConstantOp(kind, kind.width - 1).result).result
    return arith.XOrIOp(
        bits, arith.AndIOp(sign, arith.ConstantOp(kind, (1 << (kind.width - 1)) - 1).result).result
    ).result


def _key(value: ir.Value, extreme: _Extreme) -> ir.Value:
    kind = _integer(value.type)
    bits = arith.BitcastOp(kind, value).result
    # The two ends of the integers are NaNs.
    high = extreme.largest == extreme.nan_wins
    end = (1 << (kind.width - 1)) - 1 if high else -(1 << (kind.width - 1))
    is_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, value, value).result
    return arith.SelectOp(is_nan, arith.ConstantOp(kind, end).result, _flipped(bits)).result


def _number(key: ir.Value, kind: ir.Type) -> ir.Value:
    return arith.BitcastOp(kind, _flipped(key)).result
