"""Codes of small floats as integers: their types, and constants.

In: types and constant attributes of small floats and of i1 to i7. Out: integer ones.

>>> code_type(ir.Type.parse("vector<4xf8E5M2>"))                                # doctest: +SKIP
VectorType(vector<4xi8>)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func

from aot import mlir
from aot.errors import LoweringError
from aot.lower.analysis.elements import element_type, with_element
from aot.lower.numbers import minifloat


@dataclass(frozen=True)
class Constant:
    """An attribute that holds values of a small type."""

    op: mlir.Operation
    attribute: str
    """Its name."""
    in_memory: bool
    """Whether a byte per element is wanted, rather than the code's own width."""


def small_float(type_: ir.Type) -> str:
    """MLIR's name of the small float that a scalar or vector type is made of; "" for every other type."""
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    name = str(element) if isinstance(element, ir.FloatType) else ""
    return name if name in minifloat.NAMES else ""


def code_type(type_: ir.Type) -> ir.Type:
    """The integers that hold a small float's codes, or a vector of them; integers as they are."""
    return with_element(type_, ir.IntegerType.get_signless(element_type(type_).width))


def is_signed(type_: ir.Type) -> bool:
    """Whether elements are numbers that keep their sign in a byte: i2 to i7, but not i1, nor codes of floats."""
    element = element_type(type_)
    return isinstance(element, ir.IntegerType) and element.width > 1


def convert(constants: Sequence[Constant]) -> None:
    """Replace the attributes. MLIR folds the casts: it knows the encodings, and every form of attribute."""
    if not constants:
        return
    attributes = [constant.op.attributes[constant.attribute] for constant in constants]
    wanted = [_wanted(a.type, constant.in_memory) for a, constant in zip(attributes, constants, strict=True)]
    scratch = ir.Module.create()
    with ir.InsertionPoint(scratch.body):
        function = func.FuncOp("constants", ir.FunctionType.get([], wanted))
    with ir.InsertionPoint(function.add_entry_block()):
        values = [arith.ConstantOp(attribute.type, attribute).result for attribute in attributes]
        func.ReturnOp([_cast(value, type_) for value, type_ in zip(values, wanted, strict=True)])
    mlir.run_passes(scratch, ["canonicalize"], "encoding constants")
    folded = next(op for op in mlir.walk(scratch) if op.name == "func.return").operands
    for constant, value in zip(constants, folded, strict=True):
        made_by = mlir.owner(value)
        if made_by.name != "arith.constant":
            message = "a constant in a resource blob cannot be of this type: write its elements out"
            raise LoweringError(
                "a constant cannot be compiled", diagnostics=(mlir.diagnostic_at(constant.op, message),)
            )
        constant.op.attributes[constant.attribute] = made_by.attributes["value"]


def _wanted(type_: ir.Type, in_memory: bool) -> ir.Type:
    return with_element(type_, ir.IntegerType.get_signless(8)) if in_memory else code_type(type_)


def _cast(value: mlir.Value, wanted: ir.Type) -> mlir.Value:
    attribute_type = value.type
    code = code_type(attribute_type)
    if code != value.type:
        value = arith.BitcastOp(code, value).result
    extend = arith.ExtSIOp if is_signed(attribute_type) else arith.ExtUIOp
    return value if code == wanted else extend(wanted, value).result
