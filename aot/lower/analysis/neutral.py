"""What changes nothing: the value of a reduction that has met no element yet.

In: the name of an operation that combines two values, in any order, and their type. Out: the number, as an attribute.

``arith.maximumf`` of f32: -inf. ``arith.addf``: -0.0, as +0.0 would change the sign of that. ``arith.andi``: all ones.
``arith.maxnumf``: NaN, which it leaves out, so that of NaNs alone it stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mlir import ir

from aot.lower.analysis import literals
from aot.lower.numbers import minifloat

_FLOATS = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
    "arith.maxnumf": math.nan,
    "arith.minnumf": math.nan,
}
_INTEGERS: dict[str, Callable[[int], int]] = {
    "arith.addi": lambda bits: 0,
    "arith.muli": lambda bits: 1,
    "arith.andi": lambda bits: -1,
    "arith.ori": lambda bits: 0,
    "arith.xori": lambda bits: 0,
    "arith.maxsi": lambda bits: -(1 << (bits - 1)),
    "arith.minsi": lambda bits: (1 << (bits - 1)) - 1,
    "arith.maxui": lambda bits: 0,
    "arith.minui": lambda bits: -1,
}
OPERATIONS = frozenset({*_FLOATS, *_INTEGERS})
"""Those that may be taken in any order, but for rounding."""


def of(name: str, kind: ir.Type) -> ir.Attribute:
    """The number of that type that one of OPERATIONS gives the other operand for."""
    if isinstance(kind, ir.FloatType):
        return ir.FloatAttr.get(kind, _number(name, str(kind)))
    bits = kind.width if isinstance(kind, ir.IntegerType) else 64
    return literals.integer(kind, _INTEGERS[name](bits))


def admit(op: ir.Operation) -> None:
    """Let an operation that combines values have others than its source gives it.

    The neutral one, though the source says it has no infinity or NaN; sums of parts, which may overflow where no sum in
    the source's order does.
    """
    if "fastmath" in op.attributes and not math.isfinite(_FLOATS.get(op.name, 0.0)):
        op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<none>")
    if "overflowFlags" in op.attributes:
        op.attributes["overflowFlags"] = ir.Attribute.parse("#arith.overflow<none>")


def _number(name: str, kind: str) -> float:
    number = _FLOATS[name]
    if math.isnan(number) and not minifloat.has_nan(kind):
        number = -math.inf if name == "arith.maxnumf" else math.inf
    return minifloat.extreme(kind, number) if math.isinf(number) else number
