"""Arithmetic between f32 and floats of 8 bits and less, in integer operations that every target has.

In: codes (i8, or i4 for 4-bit floats) or f32 values, scalars or vectors of them. Out: the other, bit for bit:
rounding to nearest even, with each type's own infinities and NaNs.

>>> with ir.InsertionPoint(op), op.location:                                    # doctest: +SKIP
...     value = decode(code, FORMATS["f8E5M2"])                                 # i8 -> f32
...     code = encode(value, FORMATS["f8E4M3FN"])                               # f32 -> i8
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot import mlir

F32_MANTISSA, F32_BIAS = 23, 127
F32_INFINITY, F32_NAN, F32_MAGNITUDE = 0x7F800000, 0x7FC00000, 0x7FFFFFFF
_P = arith.CmpIPredicate


@dataclass(frozen=True)
class Format:
    """A small float's encoding; codes are without the sign bit, except ``nan``."""

    bits: int
    """Width of a code: 4 or 8."""
    mantissa: int
    """Stored bits of the significand."""
    bias: int
    """What the exponent field is larger than the exponent by."""
    largest: int
    """Code of the largest finite value."""
    nan: int | None
    """Code of NaN; None when there is none."""
    infinity: int | None = None
    """Code of infinity; None when there is none."""

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def overflow(self) -> int:
        """What a value too large for the type becomes."""
        choices = (self.infinity, self.nan, self.largest)
        return next(code for code in choices if code is not None)

    @property
    def greatest(self) -> float:
        """The value that no other one is larger than; its negative is the smallest one."""
        if self.infinity is not None:
            return math.inf
        exponent, fraction = divmod(self.largest, 1 << self.mantissa)
        return math.ldexp(1 + fraction / (1 << self.mantissa), exponent - self.bias)

    @property
    def unsigned_zero(self) -> bool:
        """Whether the code of negative zero is NaN instead (the FNUZ types)."""
        return self.nan == self.sign


FORMATS = {
    "f8E4M3FN": Format(8, 3, 7, 0x7E, 0x7F),
    "f8E5M2": Format(8, 2, 15, 0x7B, 0x7E, 0x7C),
    "f8E4M3FNUZ": Format(8, 3, 8, 0x7F, 0x80),
    "f8E5M2FNUZ": Format(8, 2, 16, 0x7F, 0x80),
    "f8E4M3B11FNUZ": Format(8, 3, 11, 0x7F, 0x80),
    "f8E4M3": Format(8, 3, 7, 0x77, 0x7C, 0x78),
    "f8E3M4": Format(8, 4, 3, 0x6F, 0x78, 0x70),
    "f4E2M1FN": Format(4, 1, 1, 0x7, None),
}
"""By MLIR's spelling of the type. f8E8M0FNU, which has neither sign nor zero, goes its own way below."""
EXPONENT_ONLY = "f8E8M0FNU"
NAMES = (*FORMATS, EXPONENT_ONLY)


def extreme(name: str, infinity: float) -> float:
    """The number of a type that is as far as it goes towards an infinity; of types that are not here, the infinity."""
    if name == EXPONENT_ONLY:
        return 2.0**127 if infinity > 0 else 2.0**-127
    return math.copysign(FORMATS[name].greatest, infinity) if name in FORMATS else infinity


def has_nan(name: str) -> bool:
    """Whether a type has a code for what is no number; types that are not here do."""
    return name not in FORMATS or FORMATS[name].nan is not None


def decode(code: mlir.Value, name: str) -> mlir.Value:
    """The f32 values of codes."""
    word = arith.ExtUIOp(_like(code, _i32()), code).result
    bits = _decode_exponent(word) if name == EXPONENT_ONLY else _decode(word, FORMATS[name])
    return arith.BitcastOp(_like(code, ir.F32Type.get()), bits).result


def encode(value: mlir.Value, name: str) -> mlir.Value:
    """Codes of f32 values, rounded."""
    bits = arith.BitcastOp(_like(value, _i32()), value).result
    word = _encode_exponent(bits) if name == EXPONENT_ONLY else _encode(bits, FORMATS[name])
    width = 8 if name == EXPONENT_ONLY else FORMATS[name].bits
    return arith.TruncIOp(_like(value, ir.IntegerType.get_signless(width)), word).result


def round_to_odd(value: mlir.Value) -> mlir.Value:
    """f64 to f32 such that a second rounding to a small float gives what one rounding would have given."""
    narrow = arith.TruncFOp(_like(value, ir.F32Type.get()), value).result
    back = arith.ExtFOp(value.type, narrow).result
    bits = arith.BitcastOp(_like(value, _i32()), narrow).result
    sign = _constant(value, 1 << 63, 64)
    magnitude = [
        arith.AndIOp(arith.BitcastOp(sign.type, v).result, arith.XOrIOp(sign, _constant(value, -1, 64)).result).result
        for v in (back, value)
    ]
    away = arith.CmpIOp(_P.ugt, *magnitude).result
    towards = arith.SelectOp(away, arith.SubIOp(bits, _constant(value, 1)).result, bits).result
    odd = arith.OrIOp(towards, _constant(value, 1)).result
    exact = arith.CmpFOp(arith.CmpFPredicate.UEQ, back, value).result
    return arith.BitcastOp(narrow.type, arith.SelectOp(exact, bits, odd).result).result


def _decode(word: mlir.Value, format_: Format) -> mlir.Value:
    magnitude = _and(word, format_.sign - 1)
    normal = arith.AddIOp(
        _shift_left(magnitude, F32_MANTISSA - format_.mantissa),
        _constant(word, (F32_BIAS - format_.bias) << F32_MANTISSA),
    ).result
    # Below the smallest normal value codes are multiples of the smallest one.
    step = _float_constant(word, 2.0 ** (1 - format_.bias - format_.mantissa))
    scaled = arith.MulFOp(arith.UIToFPOp(step.type, magnitude).result, step).result
    subnormal = arith.BitcastOp(word.type, scaled).result
    bits = _select(_compare(_P.ult, magnitude, 1 << format_.mantissa), subnormal, normal)
    if format_.infinity is not None:
        bits = _select(_compare(_P.eq, magnitude, format_.infinity), _constant(word, F32_INFINITY), bits)
    sign = _shift_left(_and(word, format_.sign), 32 - format_.bits)
    bits = arith.OrIOp(bits, sign).result
    if format_.nan is None:
        return bits
    if format_.unsigned_zero:
        is_nan = _compare(_P.eq, word, format_.nan)
    else:
        is_nan = _compare(_P.ugt, magnitude, max(format_.largest, format_.infinity or 0))
    return _select(is_nan, _constant(word, F32_NAN), bits)


def _encode(bits: mlir.Value, format_: Format) -> mlir.Value:
    magnitude = _and(bits, F32_MAGNITUDE)
    sign = _and(arith.ShRUIOp(bits, _constant(bits, 32 - format_.bits)).result, format_.sign)
    first_normal = (F32_BIAS + 1 - format_.bias) << F32_MANTISSA
    is_subnormal = _compare(_P.ult, magnitude, first_normal)
    code = _select(is_subnormal, _round_subnormal(magnitude, format_), _round_normal(magnitude, format_))
    too_large = _compare(_P.ugt, code, format_.largest)
    is_nan = _compare(_P.ugt, magnitude, F32_INFINITY)
    if format_.unsigned_zero:
        signed = _select(_compare(_P.eq, code, 0), code, arith.OrIOp(code, sign).result)
        return _select(arith.OrIOp(too_large, is_nan).result, _constant(bits, format_.overflow), signed)
    code = _select(too_large, _constant(bits, format_.overflow), code)
    # A type without NaN gets a zero, negative for the usual positive NaN.
    nan = format_.sign if format_.nan is None else format_.nan
    return arith.XOrIOp(_select(is_nan, _constant(bits, nan), code), sign).result


def _round_normal(magnitude: mlir.Value, format_: Format) -> mlir.Value:
    """Cut the significand, to the nearest and to even; a carry moves the exponent up by itself."""
    cut = F32_MANTISSA - format_.mantissa
    odd = _and(arith.ShRUIOp(magnitude, _constant(magnitude, cut)).result, 1)
    half = arith.AddIOp(_constant(magnitude, (1 << (cut - 1)) - 1), odd).result
    rounded = arith.ShRUIOp(arith.AddIOp(magnitude, half).result, _constant(magnitude, cut)).result
    return arith.SubIOp(rounded, _constant(magnitude, (F32_BIAS - format_.bias) << format_.mantissa)).result


def _round_subnormal(magnitude: mlir.Value, format_: Format) -> mlir.Value:
    """Add a number whose last place is the smallest code's value: the addition rounds as the code must."""
    exponent = F32_MANTISSA + 1 - format_.bias - format_.mantissa
    anchor = _float_constant(magnitude, 2.0**exponent)
    value = arith.BitcastOp(anchor.type, magnitude).result
    total = arith.BitcastOp(magnitude.type, arith.AddFOp(value, anchor).result).result
    return arith.SubIOp(total, _constant(magnitude, (exponent + F32_BIAS) << F32_MANTISSA)).result


def _decode_exponent(word: mlir.Value) -> mlir.Value:
    bits = _select(_compare(_P.eq, word, 0), _constant(word, 1 << 22), _shift_left(word, F32_MANTISSA))
    return _select(_compare(_P.eq, word, 0xFF), _constant(word, F32_NAN), bits)


def _encode_exponent(bits: mlir.Value) -> mlir.Value:
    """Nearest power of two, halfway cases up; zero, negative and too large values are NaN.

    Below 2**-126 the rule is that of ml_dtypes and torch: everything above 2**-127 goes up.
    """
    half = _constant(bits, 1 << 22)
    rounded = arith.ShRUIOp(arith.AddIOp(bits, half).result, _constant(bits, F32_MANTISSA)).result
    rounded = arith.MinUIOp(rounded, _constant(bits, 0xFF)).result
    small = arith.ExtUIOp(bits.type, _compare(_P.ugt, bits, 1 << 22)).result
    code = _select(_compare(_P.ult, bits, 1 << F32_MANTISSA), small, rounded)
    is_nan = arith.OrIOp(_compare(_P.eq, bits, 0), _compare(_P.slt, bits, 0)).result
    return _select(is_nan, _constant(bits, 0xFF), code)


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _like(value: mlir.Value, element: ir.Type) -> ir.Type:
    """``element``, or a vector of it of the value's shape."""
    return ir.VectorType.get(value.type.shape, element) if isinstance(value.type, ir.VectorType) else element


def _attribute(type_: ir.Type, element: ir.Attribute) -> ir.Attribute:
    return ir.DenseElementsAttr.get_splat(type_, element) if isinstance(type_, ir.VectorType) else element


def _constant(like: mlir.Value, number: int, width: int = 32) -> mlir.Value:
    element = ir.IntegerType.get_signless(width)
    signed = number - (1 << width) if number >> (width - 1) > 0 else number
    type_ = _like(like, element)
    return arith.ConstantOp(type_, _attribute(type_, ir.IntegerAttr.get(element, signed))).result


def _float_constant(like: mlir.Value, number: float) -> mlir.Value:
    type_ = _like(like, ir.F32Type.get())
    return arith.ConstantOp(type_, _attribute(type_, ir.FloatAttr.get(ir.F32Type.get(), number))).result


def _and(value: mlir.Value, mask: int) -> mlir.Value:
    return arith.AndIOp(value, _constant(value, mask)).result


def _shift_left(value: mlir.Value, places: int) -> mlir.Value:
    return arith.ShLIOp(value, _constant(value, places)).result


def _compare(predicate: arith.CmpIPredicate, value: mlir.Value, number: int) -> mlir.Value:
    return arith.CmpIOp(predicate, value, _constant(value, number)).result


def _select(condition: mlir.Value, yes: mlir.Value, no: mlir.Value) -> mlir.Value:
    return arith.SelectOp(condition, yes, no).result
