"""Slices and elements whose place is known only at run time are checked by host code before the work on them.

In: functions on buffers, before deallocation. Out: the same, with ``cf.assert`` in front of such slices.

``memref.subview %x[%o] [%n] [1] : memref<?xf32>`` gets an assertion that ``%o`` and ``%n`` are not negative and
``%o + %n`` is at most the extent: "a slice (offset 3, size 4) leaves dimension 0 of 'x' (5)". An assertion in a loop
would keep it from becoming a kernel. So slices and copies in loops are checked before the loops, for all iterations:
those that are made in each of them, with an offset that is a sum of indices (``looprange``), and sizes that are known
there. Single elements that host code touches once are checked, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.checks import asserts, looprange
from aot.lower.checks.looprange import Nest, value_of
from aot.lower.general.mappedloop import Bound
from aot.lower.source.signature import public_functions
from aot.model import Function

_CHECKED = {"memref.subview": 0, "memref.load": 0, "memref.store": 1}
"""What is checked where it runs once, and which operand is the buffer."""
_IN_LOOPS = frozenset({"memref.subview", "memref.copy"})


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


def insert(module: ir.Module, functions: Sequence[Function]) -> None:
    """Put assertions in front of the slices of host code."""
    by_name = {function.name: function for function in functions}
    for function in public_functions(module):
        for op in mlir.walk(function):
            if op.name in _CHECKED and all(parent.name in looprange.ONCE for parent in mlir.parents(op)):
                check = _check if op.name == "memref.subview" else _check_element
                check(op, function, by_name[mlir.symbol_name(function)])
            elif op.name in _IN_LOOPS and (nest := looprange.around(op)) is not None:
                before = _check_before if op.name == "memref.subview" else _check_copy_before
                before(op, nest, function, by_name[mlir.symbol_name(function)])


def _check(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    source = op.operands[0]
    name = _name(source, function, signature)
    with ir.InsertionPoint(op), op.location:
        for axis in _axes(op):
            if not axis.known() and not _is_whole(axis, source):
                extent = _extent(axis, source)
                text = _text("a slice", axis, [axis.offset], name)
                asserts.check(_inside(axis, extent), text, *_numbers(axis, [axis.offset], extent))


def _check_before(op: ir.Operation, nest: Nest, function: ir.Operation, signature: Function) -> None:
    """A slice in loops: none of their iterations leaves the buffer."""
    source = op.operands[0]
    with ir.InsertionPoint(nest.outermost), op.location:
        for axis in _axes(op):
            known = nest.is_known(axis.size) and nest.is_known(axis.stride)
            if axis.known() or not known or (axis.extent is None and not nest.holds(source)) or _is_whole(axis, source):
                continue
            found = nest.range(axis.offset)
            if found is not None:
                extent = _extent(axis, source)
                fits = _inside(dataclasses.replace(axis, offset=found.least), extent)
                offsets = [found.least]
                if found.varies:
                    last = _inside(dataclasses.replace(axis, offset=found.largest), extent)
                    fits = arith.AndIOp(fits, last).result
                    offsets.append(found.largest)
                text = _text("a slice in a loop", axis, offsets, _name(source, function, signature))
                asserts.check(nest.unless_empty(fits), text, *_numbers(axis, offsets, extent))


def _check_copy_before(op: ir.Operation, nest: Nest, function: ir.Operation, signature: Function) -> None:
    """A copy in loops: what is copied has the extents of the place it goes to."""
    given, taken = list(op.operands)[:2]
    if given == taken or not all(ir.ShapedType(value.type).has_rank for value in (given, taken)):
        return
    with ir.InsertionPoint(nest.outermost), op.location:
        for axis in range(ir.MemRefType(given.type).rank):
            one, other = _extent_before(given, axis, nest), _extent_before(taken, axis, nest)
            if one is not None and other is not None and one != other:
                numbers = value_of(one), value_of(other)
                same = arith.CmpIOp(arith.CmpIPredicate.eq, *numbers).result
                text = f"extent {axis} of what a loop copies ({{}}) is not that of its place ({{}})"
                asserts.check(nest.unless_empty(same), text, *numbers)


def _extent_before(memory: ir.Value, axis: int, nest: Nest) -> Bound | None:
    """An extent, if it is known before the loops."""
    kind, made_by = ir.MemRefType(memory.type), mlir.owner(memory)
    if not kind.is_dynamic_dim(axis):
        return int(kind.get_dim_size(axis))
    if nest.holds(memory):
        return memref.DimOp(memory, value_of(axis)).result
    size: Bound | None = None
    if isinstance(made_by, ir.Operation) and made_by.name == "memref.alloc":
        size = made_by.operands[sum(kind.is_dynamic_dim(before) for before in range(axis))]
    elif isinstance(made_by, ir.Operation) and made_by.name == "memref.subview":
        sizes = [each.size for each in _axes(made_by)]
        if len(sizes) != kind.rank:  # without dimensions of one element
            sizes = [each for each in sizes if each != 1]
        size = sizes[axis] if len(sizes) == kind.rank else None
    return size if size is not None and nest.is_known(size) else None


def _check_element(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    """One element that host code loads or stores: reading past the end would give a wrong number without a word."""
    first = _CHECKED[op.name]
    memory, indices = op.operands[first], list(op.operands)[first + 1 :]
    kind = ir.MemRefType(memory.type)
    with ir.InsertionPoint(op), op.location:
        for axis, index in enumerate(indices):
            static = None if kind.is_dynamic_dim(axis) else int(kind.get_dim_size(axis))
            known = literals.whole(index)
            if (known is not None and static is not None and 0 <= known < static) or not looprange.is_at_hand(index):
                continue
            extent = memref.DimOp(memory, value_of(axis)).result if static is None else value_of(static)
            # As unsigned numbers negative ones are large.
            inside = arith.CmpIOp(arith.CmpIPredicate.ult, index, extent).result
            text = f"an index ({{}}) leaves dimension {axis} of {_name(memory, function, signature)} ({{}})"
            asserts.check(inside, text, index, extent)


def _is_whole(axis: _Axis, source: ir.Value) -> bool:
    """Whether the slice takes the dimension as it is: ``memref.dim`` of it, or the size it was allocated with."""
    if axis.offset != 0 or axis.stride != 1 or axis.extent is not None or isinstance(axis.size, int):
        return False
    sized_by, made_by = mlir.owner(axis.size), mlir.owner(source)
    if isinstance(sized_by, ir.Operation) and sized_by.name == "memref.dim" and sized_by.operands[0] == source:
        return literals.whole(sized_by.operands[1]) == axis.number
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


def _name(source: ir.Value, function: ir.Operation, signature: Function) -> str:
    if mlir.owner(source) == function.regions[0].blocks[0]:
        return f"'{signature.args[ir.BlockArgument(source).arg_number].name}'"
    return "a buffer"
