"""What vectors and tensors are made of: types of elements.

In: a type. Out: a type. Numbers are their own elements, and so is memory: it is no value, but where values are.

>>> element_type(ir.Type.parse("vector<4xf16>"))                                # doctest: +SKIP
F16Type(f16)
"""

from __future__ import annotations

from mlir import ir

_OF_ELEMENTS = (ir.VectorType, ir.RankedTensorType, ir.UnrankedTensorType)


def element_type(type_: ir.Type) -> ir.Type:
    """Of a vector or a tensor; any other type itself."""
    return type_.element_type if isinstance(type_, _OF_ELEMENTS) else type_


def with_element(type_: ir.Type, element: ir.Type) -> ir.Type:
    """``element`` in the shape of ``type_``."""
    if isinstance(type_, ir.VectorType):
        return ir.VectorType.get(type_.shape, element)
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(type_.shape, element)
    return element
