"""Slices and elements whose place is known only at run time are checked by host code before the work on them.

In: functions on buffers, before deallocation. Out: the same, with ``cf.assert`` in front of such slices.

``memref.subview %x[%o] [%n] [1] : memref<?xf32>`` gets an assertion that ``%o`` and ``%n`` are not negative and
``%o + %n`` is at most the extent: "a slice leaves dimension 0 of 'x'". Slices in loops are left alone: an
assertion in a loop would keep it from becoming a kernel. Single elements that host code touches are checked, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, cf, memref

from aot import mlir
from aot.lower import literals
from aot.lower.signature import public_functions
from aot.model import Function

ONCE = frozenset({"func.func", "builtin.module", "scf.if", "scf.index_switch", "scf.execute_region"})
"""Operations whose bodies run at most once per call."""


_CHECKED = {"memref.subview": 0, "memref.load": 0, "memref.store": 1}
"""What is checked, and which operand is the buffer."""


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
            if op.name in _CHECKED and all(parent.name in ONCE for parent in mlir.parents(op)):
                check = _check if op.name == "memref.subview" else _check_element
                check(op, function, by_name[mlir.symbol_name(function)])


def _check(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    source = op.operands[0]
    name = _name(source, function, signature)
    with ir.InsertionPoint(op), op.location:
        for axis in _axes(op):
            if not axis.known() and not _is_whole(axis, source):
                cf.AssertOp(_inside(axis, source), f"a slice leaves dimension {axis.number} of {name}")


def _check_element(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    """One element that host code loads or stores: reading past the end would give a wrong number without a word."""
    first = _CHECKED[op.name]
    memory, indices = op.operands[first], list(op.operands)[first + 1 :]
    kind = ir.MemRefType(memory.type)
    with ir.InsertionPoint(op), op.location:
        for axis, index in enumerate(indices):
            static = None if kind.is_dynamic_dim(axis) else int(kind.get_dim_size(axis))
            known = literals.whole(index)
            if (known is not None and static is not None and 0 <= known < static) or not _is_at_hand(index):
                continue
            extent = memref.DimOp(memory, _value(axis)).result if static is None else _value(static)
            # As unsigned numbers negative ones are large.
            inside = arith.CmpIOp(arith.CmpIPredicate.ult, index, extent).result
            cf.AssertOp(inside, f"an index leaves dimension {axis} of {_name(memory, function, signature)}")


def _is_at_hand(value: ir.Value) -> bool:
    """Whether host code has the number without reading memory, for which it would have to wait."""
    made_by = mlir.owner(value)
    if not isinstance(made_by, ir.Operation):
        return bool(made_by.owner.operation.name == "func.func")
    if made_by.name == "memref.dim":
        return True
    return made_by.name.startswith(("arith.", "index.")) and all(map(_is_at_hand, made_by.operands))


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


def _inside(axis: _Axis, source: ir.Value) -> ir.Value:
    offset, size, stride = (_value(part) for part in (axis.offset, axis.size, axis.stride))
    extent = _value(axis.extent) if axis.extent is not None else memref.DimOp(source, _value(axis.number)).result
    last = arith.AddIOp(offset, arith.MulIOp(arith.SubIOp(size, _value(1)).result, stride).result).result
    fits = arith.CmpIOp(arith.CmpIPredicate.slt, last, extent).result
    # One by one, too: the last position of a huge offset or size is a negative number.
    for predicate, limit in ((arith.CmpIPredicate.sge, _value(0)), (arith.CmpIPredicate.sle, extent)):
        for part in (offset, size):
            fits = arith.AndIOp(fits, arith.CmpIOp(predicate, part, limit).result).result
    # Strides may be negative.
    not_before = arith.CmpIOp(arith.CmpIPredicate.sge, last, _value(0)).result
    nothing = arith.CmpIOp(arith.CmpIPredicate.eq, size, _value(0)).result
    return arith.AndIOp(fits, arith.OrIOp(nothing, not_before).result).result


def _value(part: ir.Value | int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), part).result if isinstance(part, int) else part


def _name(source: ir.Value, function: ir.Operation, signature: Function) -> str:
    if mlir.owner(source) == function.regions[0].blocks[0]:
        return f"'{signature.args[ir.BlockArgument(source).arg_number].name}'"
    return "a buffer"
