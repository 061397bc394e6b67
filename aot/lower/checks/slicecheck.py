"""Slices whose place is known only at run time are checked by host code before the work on them.

In: functions on buffers, before deallocation. Out: the same, with ``cf.assert`` in front of such slices.

``memref.subview %x[%o] [%n] [1] : memref<?xf32>`` gets an assertion that ``%o`` and ``%n`` are not negative and
``%o + %n`` is at most the extent: "a slice (offset 3, size 4) leaves dimension 0 of 'x' (5)". An assertion in a loop
would keep it from becoming a kernel. So slices and copies in loops are checked before the loops, for all iterations:
those that are made in each of them, with an offset that is a sum of indices (``looprange``), and sizes that are known
there, or cut off (``clipped``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from aot import mlir
from aot.lower.analysis import literals, opwalk
from aot.lower.checks import asserts, clipped, looprange
from aot.lower.checks.looprange import Nest, value_of
from aot.lower.general.mappedloop import Bound
from aot.lower.source.signature import public_functions
from aot.model import Function


@dataclass(frozen=True)
class _Axis:
    """One dimension of a slice: numbers where they are static, values where not."""

    number: int
    offset: ir.Value | int
    size: ir.Value | int
    stride: ir.Value | int
    extent: int | None
    """Of the sliced buffer; None where dynamic."""

    def known(self) -> bool:
        """Whether the verifier has checked it, or there is nothing to check: all of the dimension."""
        parts = (self.offset, self.size, self.stride)
        return self.extent is not None and all(isinstance(part, int) for part in parts)


def insert(module: ir.Module, functions: Sequence[Function]) -> frozenset[str]:
    """Put assertions in front of the slices of host code; names of the functions where some are left unchecked."""
    by_name = {function.name: function for function in functions}
    unchecked: set[str] = set()
    for function in public_functions(module):
        signature = by_name[mlir.symbol_name(function)]
        for op in opwalk.named(function, "memref.subview", "memref.copy"):
            if not _is_checked(op, function, signature):
                unchecked.add(signature.name)
    return frozenset(unchecked)


def _is_checked(op: ir.Operation, function: ir.Operation, signature: Function) -> bool:
    """Whether assertions say all of the slice or copy; they are made."""
    if all(parent.name in looprange.ONCE for parent in mlir.parents(op)):
        # Copies have been looked at by ``shapecheck``.
        return op.name == "memref.copy" or _check(op, function, signature)
    nest = looprange.around(op)
    if nest is None:
        return _fits_anyway(op)
    before = _check_before if op.name == "memref.subview" else _check_copy_before
    return before(op, nest, function, signature)


def _fits_anyway(op: ir.Operation) -> bool:
    """Whether types and allocations say that nothing can go wrong."""
    given, taken = op.operands[0], op.operands[-1]
    if op.name == "memref.subview":
        return all(axis.known() or _is_whole(axis, given) for axis in _axes(op))
    made_by = mlir.owner(taken)
    sizes = list(made_by.operands) if isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc" else []
    dynamic = [axis for axis in range(ir.MemRefType(taken.type).rank) if ir.MemRefType(taken.type).is_dynamic_dim(axis)]
    return len(sizes) == len(dynamic) and all(map(is_extent, sizes, [given] * len(sizes), dynamic))


def is_extent(size: ir.Value, memory: ir.Value, axis: int) -> bool:
    """Whether the number is the buffer's extent along the axis: ``memref.dim``."""
    made_by = mlir.owner(size)
    if not isinstance(made_by, ir.Operation) or made_by.name != "memref.dim":
        return False
    return bool(made_by.operands[0] == memory) and literals.whole(made_by.operands[1]) == axis


def _check(op: ir.Operation, function: ir.Operation, signature: Function) -> bool:
    source = op.operands[0]
    name = name_of(source, function, signature)
    with ir.InsertionPoint(op), op.location:
        for axis in _axes(op):
            if not axis.known() and not _is_whole(axis, source):
                extent = _extent(axis, source)
                text = _text("a slice", axis, [axis.offset], name)
                asserts.check(_inside(axis, extent), text, *_numbers(axis, [axis.offset], extent))
    return True


def _check_before(op: ir.Operation, nest: Nest, function: ir.Operation, signature: Function) -> bool:
    """A slice in loops: none of their iterations leaves the buffer."""
    source, complete = op.operands[0], True
    with ir.InsertionPoint(nest.outermost), op.location:
        for axis in _axes(op):
            if axis.known() or _is_whole(axis, source):
                continue
            held = axis.extent is not None or nest.holds(source)
            name = name_of(source, function, signature)
            if not held or not (_check_range(axis, source, nest, name) or _check_clipped(axis, source, nest, name)):
                complete = False
    return complete


def _check_range(axis: _Axis, source: ir.Value, nest: Nest, name: str) -> bool:
    """Of slices of one size; whether they are such."""
    found = nest.range(axis.offset) if nest.is_known(axis.size) and nest.is_known(axis.stride) else None
    if found is None:
        return False
    extent, offsets = _extent(axis, source), [found.least]
    fits = _inside(dataclasses.replace(axis, offset=found.least), extent)
    if found.varies:
        last = _inside(dataclasses.replace(axis, offset=found.largest), extent)
        fits = arith.AndIOp(fits, last).result
        offsets.append(found.largest)
    asserts.check(
        nest.unless_empty(fits), _text("a slice in a loop", axis, offsets, name), *_numbers(axis, offsets, extent)
    )
    return True


def _check_clipped(axis: _Axis, source: ir.Value, nest: Nest, name: str) -> bool:
    """Of slices that are cut off; whether they are such."""
    found = clipped.find(nest, axis.offset, axis.size) if axis.stride == 1 else None
    if found is None:
        return False
    extent, zero = _extent(axis, source), value_of(0)
    fits = arith.CmpIOp(arith.CmpIPredicate.sle, found.end, extent).result
    for part in (found.first, found.size):
        fits = arith.AndIOp(fits, arith.CmpIOp(arith.CmpIPredicate.sge, part, zero).result).result
    text = f"slices in a loop (offset {{}} to end {{}}, least size {{}}) leave dimension {axis.number} of {name} ({{}})"
    asserts.check(nest.unless_empty(fits), text, found.first, found.end, found.size, extent)
    return True


def _check_copy_before(op: ir.Operation, nest: Nest, function: ir.Operation, signature: Function) -> bool:
    """A copy in loops: what is copied has the extents of the place it goes to."""
    given, taken = list(op.operands)[:2]
    if given == taken or not all(ir.ShapedType(value.type).has_rank for value in (given, taken)):
        return bool(given == taken)
    complete = True
    with ir.InsertionPoint(nest.outermost), op.location:
        for axis in range(ir.MemRefType(given.type).rank):
            if (size := _size_of(given, axis)) is not None and size == _size_of(taken, axis):
                continue
            one, other = extent_before(given, axis, nest), extent_before(taken, axis, nest)
            complete = complete and one is not None and other is not None
            if one is not None and other is not None and one != other:
                numbers = value_of(one), value_of(other)
                same = arith.CmpIOp(arith.CmpIPredicate.eq, *numbers).result
                text = f"extent {axis} of what a loop copies ({{}}) is not that of its place ({{}})"
                asserts.check(nest.unless_empty(same), text, *numbers)
    return complete


def extent_before(memory: ir.Value, axis: int, nest: Nest) -> Bound | None:
    """An extent, if it is known before the loops."""
    if ir.MemRefType(memory.type).is_dynamic_dim(axis) and nest.holds(memory):
        return memref.DimOp(memory, value_of(axis)).result
    size = _size_of(memory, axis)
    return size if size is not None and nest.is_known(size) else None


def _size_of(memory: ir.Value, axis: int) -> Bound | None:
    """An extent, if it stands in the type, or where the buffer is made."""
    kind, made_by = ir.MemRefType(memory.type), mlir.owner(memory)
    if not kind.is_dynamic_dim(axis):
        return int(kind.get_dim_size(axis))
    if not isinstance(made_by, ir.Operation):
        return None
    if made_by.name == "memref.alloc":
        found: Bound = made_by.operands[sum(kind.is_dynamic_dim(before) for before in range(axis))]
        return found
    sizes = [each.size for each in _axes(made_by)] if made_by.name == "memref.subview" else []
    if len(sizes) != kind.rank:  # without dimensions of one element
        sizes = [each for each in sizes if each != 1]
    return sizes[axis] if len(sizes) == kind.rank else None


def _is_whole(axis: _Axis, source: ir.Value) -> bool:
    """Whether the slice takes the dimension as it is: ``memref.dim`` of it, or the size it was allocated with."""
    if axis.offset != 0 or axis.stride != 1 or axis.extent is not None or isinstance(axis.size, int):
        return False
    made_by = mlir.owner(source)
    if is_extent(axis.size, source, axis.number):
        return True
    if not isinstance(made_by, ir.Operation) or made_by.name != "memref.alloc":
        return False
    kind = ir.MemRefType(source.type)
    dynamic = sum(kind.is_dynamic_dim(number) for number in range(axis.number))
    return bool(made_by.operands[dynamic] == axis.size)


def _axes(op: ir.Operation) -> Iterator[_Axis]:
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    kind = ir.MemRefType(op.operands[0].type)
    values = list(op.operands)[1:]
    parts = []
    for name, count in zip(("static_offsets", "static_sizes", "static_strides"), segments[1:], strict=True):
        parts.append(mixed(ir.DenseI64ArrayAttr(op.attributes[name]), values[:count]))
        values = values[count:]
    for number, (offset, size, stride) in enumerate(zip(*parts, strict=True)):
        extent = None if kind.is_dynamic_dim(number) else kind.get_dim_size(number)
        yield _Axis(number, offset, size, stride, extent)


def mixed(static: Sequence[int], dynamic: Sequence[ir.Value]) -> list[ir.Value | int]:
    """Numbers where they are static, values where not."""
    values = iter(dynamic)
    unknown = ir.ShapedType.get_dynamic_size()
    return [next(values) if number == unknown else number for number in static]


def _extent(axis: _Axis, source: ir.Value) -> ir.Value:
    """Of the sliced buffer."""
    return value_of(axis.extent) if axis.extent is not None else memref.DimOp(source, value_of(axis.number)).result


def _text(what: str, axis: _Axis, offsets: Sequence[Bound], where: str) -> str:
    """For a slice whose offset is one number, or lies between two."""
    place = "offset {}" if len(offsets) == 1 else "offsets {} to {}"
    stride = "" if axis.stride == 1 else ", stride {}"
    return f"{what} ({place}, size {{}}{stride}) leaves dimension {axis.number} of {where} ({{}})"


def _numbers(axis: _Axis, offsets: Sequence[Bound], extent: ir.Value) -> list[ir.Value]:
    """What stands in the text."""
    parts = [*offsets, axis.size, *([] if axis.stride == 1 else [axis.stride])]
    return [*map(value_of, parts), extent]


def _inside(axis: _Axis, extent: ir.Value) -> ir.Value:
    offset, size, stride = (value_of(part) for part in (axis.offset, axis.size, axis.stride))
    last = arith.AddIOp(offset, arith.MulIOp(arith.SubIOp(size, value_of(1)).result, stride).result).result
    fits = arith.CmpIOp(arith.CmpIPredicate.slt, last, extent).result
    # One by one, too: the last position of a huge offset or size is a negative number.
    for predicate, limit in ((arith.CmpIPredicate.sge, value_of(0)), (arith.CmpIPredicate.sle, extent)):
        for part in (offset, size):
            fits = arith.AndIOp(fits, arith.CmpIOp(predicate, part, limit).result).result
    # Strides may be negative.
    not_before = arith.CmpIOp(arith.CmpIPredicate.sge, last, value_of(0)).result
    nothing = arith.CmpIOp(arith.CmpIPredicate.eq, size, value_of(0)).result
    return arith.AndIOp(fits, arith.OrIOp(nothing, not_before).result).result


def name_of(source: ir.Value, function: ir.Operation, signature: Function) -> str:
    if mlir.owner(source) == function.regions[0].blocks[0]:
        return f"'{signature.args[ir.BlockArgument(source).arg_number].name}'"
    return "a buffer"
