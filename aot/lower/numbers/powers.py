"""Powers of floats with whole exponents, ``math.fpowi``: a few multiplications where the exponent is known.

In: a module. Out: the same, where constant exponents have become multiplications, and others have the 32 bits that the
functions behind them take: upstream passes exponents of any width on to them as they are. Front ends write squares so.

``math.fpowi %x, %c2 : f32, i64``  becomes  ``arith.mulf %x, %x``
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.analysis.elements import element_type

_MOST = 1 << 16
"""Constant exponents beyond are left to the function."""
_WORD, _SINGLE, _INDEX = 32, 32, 64
"""Bits of the function's exponent; of f32, in which narrower floats are multiplied; of an index."""


def lower(module: mlir.Module) -> None:
    """Rewrite all such powers, but those of tensors whose extents are not known: they are element by element later."""
    for op in mlir.walk(module):
        if op.name == "math.fpowi" and not _is_open(op.results[0].type):
            with ir.InsertionPoint(op), op.location:
                value = _power(op)
            if value is not None:
                op.results[0].replace_all_uses_with(value)
                op.erase()


def _is_open(kind: ir.Type) -> bool:
    return isinstance(kind, ir.ShapedType) and not kind.has_static_shape


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """The same type with other elements."""
    if isinstance(kind, ir.VectorType):
        return ir.VectorType.get(kind.shape, element, scalable=kind.scalable_dims)
    return ir.RankedTensorType.get(kind.shape, element) if isinstance(kind, ir.ShapedType) else element


def _constant(kind: ir.Type, number: float) -> mlir.Value:
    element = element_type(kind)
    is_float = isinstance(element, ir.FloatType)
    one = ir.FloatAttr.get(element, number) if is_float else ir.IntegerAttr.get(element, int(number))
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, one) if kind != element else one).result


def _power(op: mlir.Operation) -> mlir.Value | None:
    """The power; None when the operation may stay as it is."""
    base, exponent = op.operands
    kind, narrow = base.type, element_type(base.type).width < _SINGLE
    known = _known(exponent)
    if isinstance(element_type(exponent.type), ir.IndexType):
        exponent = arith.IndexCastOp(_like(exponent.type, ir.IntegerType.get_signless(_INDEX)), exponent).result
    if known is None and not narrow and element_type(exponent.type).width == _WORD:
        return None
    if narrow:
        base = arith.ExtFOp(_like(kind, ir.F32Type.get()), base).result
    value = _product(base, known) if known is not None else _function(base, exponent)
    return arith.TruncFOp(kind, value).result if narrow else value


def _known(exponent: mlir.Value) -> int | None:
    """A constant exponent that is not too large."""
    value = literals.element(exponent)
    if value is None:
        return None
    number = literals.number(ir.IntegerAttr(value))
    return number if abs(number) <= _MOST else None


def _product(base: mlir.Value, exponent: int) -> mlir.Value:
    """Square and multiply; one over it for a negative exponent."""
    product: mlir.Value | None = None
    square, left = base, abs(exponent)
    while left:
        if left & 1:
            product = square if product is None else arith.MulFOp(product, square).result
        left >>= 1
        square = arith.MulFOp(square, square).result if left else square
    one = _constant(base.type, 1.0)
    if product is None:
        return one
    return product if exponent > 0 else arith.DivFOp(one, product).result


def _wide(base: mlir.Value, exponent: mlir.Value) -> mlir.Value:
    """By a float exponent, of the absolute value: those beyond 2^53 are all even, and the sign is that of odd ones."""
    power = math.PowFOp(math.AbsFOp(base).result, arith.SIToFPOp(base.type, exponent).result).result
    last = arith.AndIOp(exponent, _constant(exponent.type, 1)).result
    is_odd = arith.CmpIOp(arith.CmpIPredicate.ne, last, _constant(exponent.type, 0)).result
    return arith.SelectOp(is_odd, math.CopySignOp(power, base).result, power).result


def _function(base: mlir.Value, exponent: mlir.Value) -> mlir.Value:
    """With an exponent of 32 bits. Wider ones are brought into range with their parity kept, which has the sign."""
    bits = element_type(exponent.type).width
    word = _like(exponent.type, ir.IntegerType.get_signless(_WORD))
    if bits < _WORD:
        exponent = arith.ExtSIOp(word, exponent).result
    elif bits > _WORD and element_type(base.type).width > _SINGLE:
        return _wide(base, exponent)
    elif bits > _WORD:
        one = _constant(exponent.type, 1)
        half = arith.ShRSIOp(exponent, one).result
        half = arith.MaxSIOp(half, _constant(exponent.type, -(1 << _WORD - 2))).result
        half = arith.MinSIOp(half, _constant(exponent.type, (1 << _WORD - 2) - 1)).result
        whole = arith.OrIOp(arith.ShLIOp(half, one).result, arith.AndIOp(exponent, one).result).result
        exponent = arith.TruncIOp(word, whole).result
    return math.FPowIOp(base, exponent).result
