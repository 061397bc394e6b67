"""Functions of the math dialect as straight-line arithmetic, so that loops with them become vector code.

In: loop bodies with ``math.exp``, ``exp2``, ``expm1``, ``log``, ``log2``, ``log10``, ``log1p``, ``tanh`` and ``erf`` on
f32, and ``exp`` on f64. Out: arithmetic in their place; every other function is left to the C math library. f16 and
bf16 are computed in f32.

The error is at most 4 units in the last place, for denormals too; infinities and NaNs come out as from the library.
A C library's own vector functions would be faster to call than this is to run, but musl has none, and glibc's names
and accuracies depend on its version. Coefficients are minimax fits made for this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_dialect

from aot import mlir

_EXP32 = (0.5000000099452291, 0.16666513632023827, 0.04166619039739224, 0.008369530783529523, 0.0013951565032429725)
_EXP64 = (
    0.4999999999999971, 0.1666666666666606, 0.041666666666849664, 0.00833333333367367, 0.0013888888837537037,
    0.00019841269170402977, 2.48016598078979e-05, 2.7557858455446995e-06, 2.75065738016354e-07, 2.491361071449935e-08,
    3.5104464642188006e-09,
)  # fmt: skip
"""(exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2."""
_TANH = (-0.33333285006197655, 0.1333151312412144, -0.05374496094091625, 0.02065458246222405, -0.005720882070713133)
"""(tanh(x) / x - 1) / x^2 in powers of x^2, for |x| <= 0.625."""
_LOG = (
    0.3333331678446838, -0.25000796567357797, 0.20002282514583294, -0.16624969748873097, 0.14181420385938434,
    -0.1312529657703317, 0.12879198813221454, -0.07865444527163686,
)  # fmt: skip
"""(log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""
_ERF_SMALL = (
    1.128379165726708, -0.37612625824218604, 0.11283585148452088, -0.026853811928554735, 0.005188327672928744,
    -0.0008010193512535713, 7.85386098046741e-05,
)  # fmt: skip
"""erf(x) / x in powers of x^2, for |x| <= 1."""
_ERF_LARGE = (
    0.00017876553444698333, -1.1295348123960136, -0.6333062335538767, -0.10832535121441819, 0.02514900113283096,
    -0.0041824027095324415, 0.000436824205379207, -2.1301050945798224e-05,
)  # fmt: skip
"""log(1 - erf(x)) for 1 <= x <= 4."""


@dataclass(frozen=True)
class _Format:
    """A binary floating-point format."""

    bits: int
    fraction: int
    bias: int
    lowest: float
    """exp is 0 below."""
    highest: float
    """exp is infinite above."""
    ln2: tuple[float, float]
    """In two parts, of which the first has so few digits that its products with exponents are exact."""
    exp: tuple[float, ...]


_F32 = _Format(32, 23, 127, -104.0, 89.0, (0.693359375, -2.12194440e-4), _EXP32)
_F64 = _Format(64, 52, 1023, -746.0, 710.0, (6.93147180369123816490e-01, 1.90821492927058770002e-10), _EXP64)


@dataclass(frozen=True)
class _Maker:
    """Makes operations of one format at the insertion point."""

    format: _Format
    fma: bool

    @property
    def type(self) -> ir.Type:
        return ir.F32Type.get() if self.format.bits == 32 else ir.F64Type.get()

    @property
    def integer(self) -> ir.Type:
        return ir.IntegerType.get_signless(self.format.bits)

    def const(self, value: float) -> ir.Value:
        return arith.ConstantOp(self.type, ir.FloatAttr.get(self.type, value)).result

    def word(self, value: int) -> ir.Value:
        return arith.ConstantOp(self.integer, value).result

    def muladd(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        if self.fma:
            return math_dialect.FmaOp(a, b, c).result
        return arith.AddFOp(arith.MulFOp(a, b).result, c).result

    def poly(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        value = self.const(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            value = self.muladd(value, x, self.const(each))
        return value

    def choose(self, predicate: str, a: ir.Value, b: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        test = arith.CmpFOp(getattr(arith.CmpFPredicate, predicate), a, b).result
        return arith.SelectOp(test, yes, no).result

    def as_int(self, value: ir.Value) -> ir.Value:
        return arith.BitcastOp(self.integer, value).result

    def as_float(self, value: ir.Value) -> ir.Value:
        return arith.BitcastOp(self.type, value).result

    def power_of_two(self, exponent: ir.Value) -> ir.Value:
        """2^exponent for the integer exponent of a normal number."""
        biased = arith.AddIOp(exponent, self.word(self.format.bias)).result
        return self.as_float(arith.ShLIOp(biased, self.word(self.format.fraction)).result)


def expand(module: ir.Module, *, fma: bool) -> None:
    """Replace the functions; ``fma``: the processor has fused multiply-adds."""
    mlir.run_passes(module, ["math-extend-to-supported-types"], "computing in f32")
    for op in mlir.walk(module):
        make = _FUNCTIONS.get((op.name, str(op.results[0].type))) if len(op.results) == 1 else None
        if make is not None:
            form = _F32 if str(op.results[0].type) == "f32" else _F64
            with ir.InsertionPoint(op), op.location:
                value = make(_Maker(form, fma), op.operands[0])
            op.results[0].replace_all_uses_with(value)
            op.erase()


def _exp(m: _Maker, x: ir.Value) -> ir.Value:
    form = m.format
    x = m.choose("OGT", x, m.const(form.highest), m.const(form.highest), x)
    x = m.choose("OLT", x, m.const(form.lowest), m.const(form.lowest), x)
    shifted, n = _nearest(m, m.muladd(x, m.const(1 / math.log(2)), m.const(1.5 * 2.0**form.fraction)))
    r = m.muladd(n, m.const(-form.ln2[0]), x)
    r = m.muladd(n, m.const(-form.ln2[1]), r)
    return _scaled_exp(m, r, shifted)


def _exp_near(m: _Maker, x: ir.Value) -> ir.Value:
    """exp of f32 whose result is far from the ends of the range."""
    n, number = _nearest(m, m.muladd(x, m.const(1 / math.log(2)), m.const(1.5 * 2.0**23)))
    r = m.muladd(number, m.const(-_F32.ln2[0]), x)
    r = m.muladd(number, m.const(-_F32.ln2[1]), r)
    return arith.MulFOp(_exp_reduced(m, r), m.power_of_two(n)).result


def _exp_reduced(m: _Maker, r: ir.Value) -> ir.Value:
    square = arith.MulFOp(r, r).result
    return arith.AddFOp(m.muladd(square, m.poly(r, m.format.exp), r), m.const(1.0)).result


def _exp2(m: _Maker, x: ir.Value) -> ir.Value:
    x = m.choose("OGT", x, m.const(129.0), m.const(129.0), x)
    x = m.choose("OLT", x, m.const(-151.0), m.const(-151.0), x)
    shifted, n = _nearest(m, arith.AddFOp(x, m.const(1.5 * 2.0**23)).result)
    return _scaled_exp(m, arith.MulFOp(arith.SubFOp(x, n).result, m.const(math.log(2))).result, shifted)


def _nearest(m: _Maker, shifted: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Adding 1.5 * 2^fraction rounds to an integer: as integer and as number. NaN gives some integer, never poison."""
    magic = m.const(1.5 * 2.0**m.format.fraction)
    whole = arith.SubIOp(m.as_int(shifted), m.as_int(magic)).result
    return whole, arith.SubFOp(shifted, magic).result


def _scaled_exp(m: _Maker, r: ir.Value, n: ir.Value) -> ir.Value:
    """exp(r) * 2^n in two steps: 2^n alone may be out of range where the product is not."""
    value = _exp_reduced(m, r)
    half = arith.ShRSIOp(n, m.word(1)).result
    value = arith.MulFOp(value, m.power_of_two(half)).result
    return arith.MulFOp(value, m.power_of_two(arith.SubIOp(n, half).result)).result


def _expm1(m: _Maker, x: ir.Value) -> ir.Value:
    """2 t / (1 - t) with t = tanh(x / 2) where exp(x) - 1 would lose digits."""
    half = arith.MulFOp(x, m.const(0.5)).result
    t = _tanh_small(m, half)
    small = arith.DivFOp(arith.AddFOp(t, t).result, arith.SubFOp(m.const(1.0), t).result).result
    large = arith.SubFOp(_exp(m, x), m.const(1.0)).result
    value = m.choose("OLT", math_dialect.AbsFOp(x).result, m.const(1.0), small, large)
    return m.choose("OEQ", x, m.const(0.0), x, value)


def _log(m: _Maker, x: ir.Value, base: tuple[float, float, float] = (1.0, *_F32.ln2)) -> ir.Value:
    """``base``: factor of the natural logarithm, and the logarithm of 2 in two parts."""
    scale, high, low = base
    denormal = m.choose("OLT", x, m.const(2.0**-126), m.const(1.0), m.const(0.0))
    scaled = m.choose("OLT", x, m.const(2.0**-126), arith.MulFOp(x, m.const(2.0**23)).result, x)
    root = m.word(0x3F3504F3)  # sqrt(1/2)
    bits = arith.SubIOp(m.as_int(scaled), root).result
    exponent = arith.SIToFPOp(m.type, arith.ShRSIOp(bits, m.word(23)).result).result
    exponent = m.muladd(denormal, m.const(-23.0), exponent)
    mantissa = m.as_float(arith.AddIOp(arith.AndIOp(bits, m.word(0x7FFFFF)).result, root).result)
    value = _log_near_one(m, arith.SubFOp(mantissa, m.const(1.0)).result, exponent, (scale, high, low))
    value = m.choose("OEQ", x, m.const(math.inf), x, value)
    value = m.choose("OEQ", x, m.const(0.0), m.const(-math.inf), value)
    return m.choose("UGE", x, m.const(0.0), m.choose("UNO", x, x, x, value), m.const(math.nan))


def _log_near_one(m: _Maker, f: ir.Value, exponent: ir.Value, base: tuple[float, float, float]) -> ir.Value:
    scale, high, low = base
    square = arith.MulFOp(f, f).result
    tail = m.muladd(arith.MulFOp(square, f).result, m.poly(f, _LOG), arith.MulFOp(square, m.const(-0.5)).result)
    value = arith.AddFOp(f, tail).result if scale == 1.0 else None
    if value is None:
        value = m.muladd(f, m.const(scale), arith.MulFOp(tail, m.const(scale)).result)
        return m.muladd(exponent, m.const(high), m.muladd(exponent, m.const(low), value))
    value = arith.AddFOp(f, m.muladd(exponent, m.const(low), tail)).result
    return m.muladd(exponent, m.const(high), value)


def _log2(m: _Maker, x: ir.Value) -> ir.Value:
    return _log(m, x, (1 / math.log(2), 1.0, 0.0))


def _log10(m: _Maker, x: ir.Value) -> ir.Value:
    high = 0.301025390625
    return _log(m, x, (1 / math.log(10), high, math.log10(2) - high))


def _log1p(m: _Maker, x: ir.Value) -> ir.Value:
    """log(u) * x / (u - 1) with u = 1 + x as rounded: the error of the sum cancels."""
    u = arith.AddFOp(x, m.const(1.0)).result
    less = arith.SubFOp(u, m.const(1.0)).result
    value = arith.MulFOp(_log(m, u), arith.DivFOp(x, less).result).result
    value = m.choose("OEQ", less, m.const(0.0), x, value)
    value = m.choose("OEQ", u, m.const(math.inf), u, value)
    return m.choose("OEQ", u, m.const(0.0), m.const(-math.inf), value)


def _tanh_small(m: _Maker, x: ir.Value) -> ir.Value:
    square = arith.MulFOp(x, x).result
    return m.muladd(arith.MulFOp(x, square).result, m.poly(square, _TANH), x)


def _tanh(m: _Maker, x: ir.Value) -> ir.Value:
    size = math_dialect.AbsFOp(x).result
    near = m.choose("OGT", size, m.const(10.0), m.const(10.0), size)
    power = _exp_near(m, arith.AddFOp(near, near).result)
    part = arith.DivFOp(m.const(2.0), arith.AddFOp(power, m.const(1.0)).result).result
    large = arith.SubFOp(m.const(1.0), part).result
    value = m.choose("OLT", size, m.const(0.625), _tanh_small(m, size), large)
    return math_dialect.CopySignOp(value, x).result


def _erf(m: _Maker, x: ir.Value) -> ir.Value:
    size = math_dialect.AbsFOp(x).result
    size = m.choose("OGT", size, m.const(4.0), m.const(4.0), size)
    small = arith.MulFOp(size, m.poly(arith.MulFOp(size, size).result, _ERF_SMALL)).result
    large = arith.SubFOp(m.const(1.0), _exp_near(m, m.poly(size, _ERF_LARGE))).result
    value = m.choose("OLT", size, m.const(1.0), small, large)
    return math_dialect.CopySignOp(value, x).result


_FUNCTIONS: dict[tuple[str, str], Callable[[_Maker, ir.Value], ir.Value]] = {
    ("math.exp", "f32"): _exp,
    ("math.exp", "f64"): _exp,
    ("math.exp2", "f32"): _exp2,
    ("math.expm1", "f32"): _expm1,
    ("math.log", "f32"): _log,
    ("math.log2", "f32"): _log2,
    ("math.log10", "f32"): _log10,
    ("math.log1p", "f32"): _log1p,
    ("math.tanh", "f32"): _tanh,
    ("math.erf", "f32"): _erf,
}
"""By operation and type."""
