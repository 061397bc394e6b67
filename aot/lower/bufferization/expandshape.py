"""Reshapes with several unknown extents in place of one, or one beside an extent of 0, which MLIR's lowering aborts on.

In: any code on buffers. Out: the same, with ``memref.reinterpret_cast`` for such reshapes.

``memref.expand_shape %x [[0, 1]] output_shape [%m, %n] : memref<?xf32> into memref<?x?xf32>`` becomes
``memref.reinterpret_cast %x to offset: [0], sizes: [%m, %n], strides: [%n, 1]``. The extents are those that the source
names; MLIR's lowering takes at most one as unknown, and computes it by division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.analysis import opwalk
from aot.lower.hostmodule import rtcalls


@dataclass(frozen=True)
class Expansion:
    """What a ``memref.expand_shape`` says."""

    groups: tuple[tuple[int, ...], ...]
    """For each dimension of the source the dimensions that it becomes."""
    sizes: tuple[ir.Value | int, ...]


@dataclass(frozen=True)
class Place:
    """Where in memory the elements of a buffer are, counted in elements."""

    offset: ir.Value
    sizes: Sequence[ir.Value | int]
    strides: Sequence[ir.Value]


def read(op: ir.Operation) -> Expansion:
    """Groups and extents of the operation."""
    dynamic = iter(list(op.operands)[1:])
    unknown = ir.ShapedType.get_dynamic_size()
    static = ir.DenseI64ArrayAttr(op.attributes["static_output_shape"])
    groups = [tuple(ir.IntegerAttr(n).value for n in group) for group in ir.ArrayAttr(op.attributes["reassociation"])]
    return Expansion(tuple(groups), tuple(next(dynamic) if size == unknown else size for size in static))


def rewrite(module: ir.Module) -> None:
    """Replace the reshapes that MLIR cannot lower."""
    for op in opwalk.named(module, "memref.expand_shape"):
        expansion = read(op)
        if any(_is_open([expansion.sizes[number] for number in group]) for group in expansion.groups):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_recast(op, expansion))
            op.erase()


def _is_open(sizes: Sequence[ir.Value | int]) -> bool:
    """Whether the extent of the source and the known ones do not give the unknown ones, or only by a division by 0."""
    unknown = sum(not isinstance(size, int) for size in sizes)
    return unknown > 1 or (unknown == 1 and any(isinstance(size, int) and size == 0 for size in sizes))


def _recast(op: ir.Operation, expansion: Expansion) -> ir.Value:
    source, kind = op.operands[0], ir.MemRefType(op.results[0].type)
    metadata = memref.ExtractStridedMetadataOp(source)
    strides: list[ir.Value] = []
    for stride, group in zip(metadata.strides, expansion.groups, strict=True):
        inner = [stride]
        for number in reversed(group[1:]):
            inner.insert(0, arith.MulIOp(inner[0], _value(expansion.sizes[number])).result)
        strides += inner
    return recast(source, kind, Place(metadata.offset, expansion.sizes, strides))


def recast(source: ir.Value, kind: ir.MemRefType, place: Place) -> ir.Value:
    """The memory of ``source``, seen as the type says; what the type leaves open is as ``place`` has it."""
    static, offset = kind.get_strides_and_offset()
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    return memref.ReinterpretCastOp(
        kind,
        source,
        [place.offset] if offset == unknown else [],
        [size for size in place.sizes if isinstance(size, ir.Value)],
        _where(place.strides, static, unknown),
        [offset],
        [ir.ShapedType.get_dynamic_size() if isinstance(size, ir.Value) else size for size in place.sizes],
        list(static),
    ).result


def _where(values: Sequence[ir.Value], static: Sequence[int], unknown: int) -> list[ir.Value]:
    return [value for value, number in zip(values, static, strict=True) if number == unknown]


def _value(size: ir.Value | int) -> ir.Value:
    return size if isinstance(size, ir.Value) else rtcalls.index(size)
