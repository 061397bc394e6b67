"""Numbers that stand in the IR: what a constant says, and which types hold all that indices and extents may be.

In: a value. Out: its number, or None when it is no constant, or one of another kind.

``%c = arith.constant 3 : index`` is the whole number 3; ``%z = arith.constant 0.0 : f32`` the real one 0.0.
"""

from __future__ import annotations

from mlir import ir

from aot import mlir

_WORD = 32
"""Bits that indices and extents are taken to fit into."""
_LONG = 64


def whole(value: mlir.Value) -> int | None:
    """The number of an integer or index constant."""
    attribute = _attribute(value)
    return number(attribute) if isinstance(attribute, ir.IntegerAttr) else None


def number(attribute: ir.IntegerAttr) -> int:
    """Its number. Of types wider than 64 bits it is read from the text: the bindings end the process for it."""
    wide = isinstance(attribute.type, ir.IntegerType) and attribute.type.width > _LONG
    return int(str(attribute).split()[0]) if wide else int(attribute.value)


def integer(kind: ir.Type, number: int) -> ir.Attribute:
    """A number of an integer type of any width, or an index."""
    return ir.Attribute.parse(f"{number} : {kind}")


def real(value: mlir.Value) -> float | None:
    """The number of a floating-point constant."""
    attribute = _attribute(value)
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def element(value: mlir.Value) -> ir.Attribute | None:
    """The number of a constant, or that all elements of a constant vector or tensor have, as an attribute."""
    attribute = _attribute(value)
    if isinstance(attribute, ir.DenseElementsAttr):
        return attribute.get_splat_value() if attribute.is_splat else None
    return attribute


def is_zero(value: mlir.Value) -> bool:
    """Whether it is a constant zero, of either kind."""
    return whole(value) == 0 or real(value) == 0.0


def may_wrap(kind: ir.Type) -> bool:
    """Whether an index or an extent may be another number as a value of this type: an integer of fewer than 32 bits."""
    return isinstance(kind, ir.IntegerType) and kind.width < _WORD


def _attribute(value: mlir.Value) -> ir.Attribute | None:
    op = mlir.owner(value)
    return mlir.attribute(op, "value") if isinstance(op, ir.Operation) and op.name == "arith.constant" else None
