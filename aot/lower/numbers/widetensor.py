"""Outputs of linalg operations in f32 beside their narrow originals.

In: a ``linalg.generic`` whose body already adds up in f32. Out: the operation on an f32 copy of its output, and
elementwise operations that make the copy before it and round it into the original after it.

``linalg.generic outs(%c : tensor<4xf16>)``  becomes  ``%w = extf(%c)``, ``linalg.generic outs(%w : tensor<4xf32>)``,
``truncf`` of its result into ``%c``.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, memref, tensor

from aot import mlir
from aot.lower.dialects import linalg


def replace_output(op: mlir.Operation, operand: int, output: int) -> None:
    """Put an f32 copy in the place of the output; ``operand`` and ``output`` are its numbers among both."""
    if isinstance(op.operands[operand].type, ir.MemRefType):
        _replace_memref(op, operand)
    else:
        _replace_tensor(op, operand, output)


def _replace_tensor(op: mlir.Operation, operand: int, output: int) -> None:
    narrow = op.operands[operand]
    wide_type = ir.RankedTensorType.get(narrow.type.shape, ir.F32Type.get())
    with ir.InsertionPoint(op), op.location:
        wide, target = _wide_init(narrow, wide_type)
    op.operands[operand] = wide
    result = op.results[output]
    result.set_type(wide_type)
    with ir.InsertionPoint.after(op), op.location:
        rounded = _elementwise(result, target)
        rounding = mlir.owner(rounded)
    result.replace_all_uses_except(rounded, rounding)


def _wide_init(narrow: mlir.Value, wide_type: ir.RankedTensorType) -> tuple[mlir.Value, mlir.Value]:
    """The f32 start values, and the tensor to round into. What is filled with a number is filled in f32 instead."""
    empty = tensor.EmptyOp(_sizes(narrow), ir.F32Type.get()).result
    made_by = mlir.owner(narrow)
    if isinstance(made_by, ir.Block) or made_by.name != "linalg.fill":
        return _elementwise(narrow, empty), narrow
    number, target = made_by.operands
    if isinstance(number.type, ir.FloatType) and number.type.width < wide_type.element_type.width:
        number = arith.ExtFOp(wide_type.element_type, number).result
    return linalg.fill(number, empty), target


def _replace_memref(op: mlir.Operation, operand: int) -> None:
    narrow = op.operands[operand]
    wide_type = ir.MemRefType.get(narrow.type.shape, ir.F32Type.get(), memory_space=narrow.type.memory_space)
    with ir.InsertionPoint(op), op.location:
        dynamic = [s for s in _sizes(narrow) if not isinstance(s, int)]
        wide = memref.AllocOp(wide_type, dynamic, []).result
        _elementwise(narrow, wide)
    op.operands[operand] = wide
    with ir.InsertionPoint.after(op), op.location:
        _elementwise(wide, narrow)


def _sizes(value: mlir.Value) -> list[mlir.Value | int]:
    """Extents: numbers where static, else values."""
    dim = memref.DimOp if isinstance(value.type, ir.MemRefType) else tensor.DimOp
    sizes: list[mlir.Value | int] = []
    for axis, extent in enumerate(value.type.shape):
        dynamic = extent == ir.ShapedType.get_dynamic_size()
        sizes.append(dim(value, arith.ConstantOp(ir.IndexType.get(), axis).result).result if dynamic else extent)
    return sizes


def _elementwise(source: mlir.Value, target: mlir.Value) -> mlir.Value:
    """Convert each element of ``source`` into ``target``; the result for tensors, ``target`` for memrefs."""
    rank = source.type.rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    on_tensors = isinstance(target.type, ir.RankedTensorType)
    op = ir.Operation.create(
        "linalg.generic",
        results=[target.type] if on_tensors else [],
        operands=[source, target],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([identity, identity]),
            "iterator_types": ir.ArrayAttr.get([parallel] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
        regions=1,
    )
    wanted = target.type.element_type
    body = op.regions[0].blocks.append(source.type.element_type, wanted)
    with ir.InsertionPoint(body):
        value = body.arguments[0]
        convert = arith.ExtFOp if value.type.width < wanted.width else arith.TruncFOp
        linalg.YieldOp([convert(wanted, value).result])
    return op.results[0] if on_tensors else target
