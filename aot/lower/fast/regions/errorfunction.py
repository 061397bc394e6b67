"""The error function in f32, as far as results narrower than that can tell.

In: a number or a vector. Out: its error function: an error of 2e-5 of the value at most, and of 1e-4 of its distance
from one, where f32 can tell that.

``erf(x) = 1 - 2^(x * p(x))`` for positive x: one exponential of the hardware, and no second polynomial for small or
large ones, which the exact function has. Below 2^-7 the difference would be a rounding; there it is
``2 / sqrt(pi) * x``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

_COEFFICIENTS = (
    *(-1.6279079914093018, -0.9183986783027649, -0.14872950315475464, 0.02917327545583248),
    *(-0.002203105017542839, -0.0004418500466272235, 8.857207285473123e-05),
)
"""Of log2(1 - erf(x)) / x in powers of x, for 2^-7 <= x <= 4."""
_LARGEST = 4.0
"""Beyond, f32 has 1."""
_SMALL, _SLOPE = 2.0**-7, 1.1283791670955126


def approximated(x: ir.Value, exponential: ir.Attribute) -> ir.Value:
    """The error function; ``exponential``: what may be done with that of a number."""

    def constant(value: float) -> ir.Value:
        if not isinstance(x.type, ir.VectorType):
            return arith.ConstantOp(x.type, value).result
        number = ir.FloatAttr.get(ir.F32Type.get(), value)
        return arith.ConstantOp(x.type, ir.DenseElementsAttr.get_splat(x.type, number)).result

    size = math.AbsFOp(x).result
    bounded = arith.MinimumFOp(size, constant(_LARGEST)).result
    power = constant(_COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        power = math.FmaOp(power, bounded, constant(coefficient)).result
    rest = math.Exp2Op(arith.MulFOp(power, bounded).result, fastmath=exponential).result
    signed = math.CopySignOp(arith.SubFOp(constant(1.0), rest).result, x).result
    small = arith.CmpFOp(arith.CmpFPredicate.OLT, size, constant(_SMALL)).result
    return arith.SelectOp(small, arith.MulFOp(x, constant(_SLOPE)).result, signed).result
