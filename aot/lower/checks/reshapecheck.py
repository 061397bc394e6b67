"""Reshapes whose extents are known only at run time are checked by host code before the work on them.

In: functions on buffers, before deallocation. Out: the same, with ``cf.assert`` in front of such reshapes.

``memref.expand_shape %x [[0, 1]] output_shape [%h, 2] : memref<?xf32> into memref<?x2xf32>`` gets an assertion that
``%h * 2`` is the extent of ``%x``: without it elements would be left out, or read past the end. Reshapes in loops are
left alone, as slices are: see ``slicecheck``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, memref

from aot import mlir
from aot.lower.bufferization import expandshape
from aot.lower.checks import asserts
from aot.lower.checks.looprange import ONCE
from aot.lower.hostmodule import rtcalls


def insert(module: ir.Module) -> None:
    """Put assertions in front of the ``memref.expand_shape`` ops of host code."""
    for op in mlir.walk(module):
        if op.name == "memref.expand_shape" and _runs_once(op):
            with ir.InsertionPoint(op), op.location:
                _check_expansion(op)


def same_size(op: ir.Operation, extents: Sequence[ir.Value | int]) -> None:
    """Assert at the insertion point that the op's source holds as many elements as the extents say."""
    if _runs_once(op):
        source = op.operands[0]
        _assert_product(extents, [_extent(source, axis) for axis in range(ir.MemRefType(source.type).rank)])


def _runs_once(op: ir.Operation) -> bool:
    return all(parent.name in ONCE for parent in mlir.parents(op))


def _check_expansion(op: ir.Operation) -> None:
    expansion = expandshape.read(op)
    for axis, group in enumerate(expansion.groups):
        parts = [expansion.sizes[number] for number in group]
        source = _extent(op.operands[0], axis)
        if not isinstance(source, int) or not all(isinstance(part, int) for part in parts):
            _assert_product(parts, [source])


def _extent(memory: ir.Value, axis: int) -> ir.Value | int:
    kind = ir.MemRefType(memory.type)
    if kind.is_dynamic_dim(axis):
        return memref.DimOp(memory, rtcalls.index(axis)).result
    return int(kind.get_dim_size(axis))


def _assert_product(extents: Sequence[ir.Value | int], source: Sequence[ir.Value | int]) -> None:
    given, wanted = _product(source), _product(extents)
    for extent in extents:
        if isinstance(extent, ir.Value):
            not_negative = arith.CmpIOp(arith.CmpIPredicate.sge, extent, rtcalls.index(0)).result
            asserts.check(not_negative, "an extent that a reshape makes is negative ({})", extent)
    same = arith.CmpIOp(arith.CmpIPredicate.eq, wanted, given).result
    asserts.check(same, "what a reshape makes (size {}) is not what there is (size {})", wanted, given)


def _product(extents: Sequence[ir.Value | int]) -> ir.Value:
    product = rtcalls.index(1)
    for extent in extents:
        product = arith.MulIOp(product, extent if isinstance(extent, ir.Value) else rtcalls.index(extent)).result
    return product
