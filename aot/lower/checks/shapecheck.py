"""Extents that must agree are checked by host code before the work that relies on them.

In: linalg on tensors or memrefs with dynamic extents, after fusion. Out: the same, with ``cf.assert`` in front.

``linalg.add ins(%x, %y : tensor<?xf32>, tensor<?xf32>)`` gets an assertion that both have the same number of elements:
"extent 0 of 'y' (7) is not extent 0 of 'x' (5)". Without it the kernel would read past the end of the shorter one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, tensor

from aot import mlir
from aot.lower.analysis import extents
from aot.lower.checks import asserts, looprange, slicecheck
from aot.lower.dialects import linalg
from aot.lower.source.signature import public_functions
from aot.model import Function

_IN_KERNELS = frozenset({"scf.parallel", "scf.forall", "affine.parallel"})
"""Bodies of these become device code, where an assertion costs, and ends the process's context."""

_COPIES = ("tensor.insert_slice", "memref.copy")
_CONCATENATIONS = {"tensor.concat": "dim", "tosa.concat": "axis"}
"""The attribute that says along which dimension."""


@dataclass(frozen=True)
class _Axis:
    """One dimension of one operand, and the loops of the operation that run along it."""

    value: ir.Value
    axis: int
    expression: ir.AffineExpr
    name: str
    """As messages call it: "extent 0 of 'x'"."""

    def static(self) -> int | None:
        kind = self.value.type
        return None if kind.is_dynamic_dim(self.axis) else int(kind.get_dim_size(self.axis))

    def extent(self) -> ir.Value:
        """The extent, as a value at the insertion point."""
        if (static := self.static()) is not None:
            return _index(static)
        make = tensor.DimOp if isinstance(self.value.type, ir.RankedTensorType) else memref.DimOp
        return make(_begun(self.value), _index(self.axis)).result


def insert(module: ir.Module, functions: Sequence[Function]) -> None:
    """Put assertions in front of all linalg operations of host code, and simplify those that always hold."""
    for op, function, signature in _host_operations(module, functions):
        if op.name.startswith("linalg."):
            _check(op, function, signature)
        elif op.name in _COPIES and all(parent.name in looprange.ONCE for parent in mlir.parents(op)):
            _check_copy(op, function, signature)


def of_concatenations(module: ir.Module, functions: Sequence[Function]) -> None:
    """Put assertions in front of concatenations of host code, before they are taken apart into slices."""
    for op, function, signature in _host_operations(module, functions):
        if op.name in _CONCATENATIONS:
            _check_parts(op, function, signature)


def _host_operations(
    module: ir.Module, functions: Sequence[Function]
) -> Iterator[tuple[ir.Operation, ir.Operation, Function]]:
    """Each with its function, and that one's signature."""
    by_name = {function.name: function for function in functions}
    for function in public_functions(module):
        for op in mlir.walk(function):
            if not any(each.name in _IN_KERNELS for each in mlir.parents(op)):
                yield op, function, by_name[mlir.symbol_name(function)]


def _check(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    maps = linalg.get_indexing_maps(op)
    if maps is None:
        return
    axes = [
        _Axis(value, axis, expression, _name(value, axis, number, op, function, signature))
        for number, (value, each) in enumerate(zip(op.operands, maps, strict=False))
        for axis, expression in enumerate(each.value.results)
        if isinstance(value.type, ir.RankedTensorType | ir.MemRefType)
    ]
    loops = _loops(axes)
    with ir.InsertionPoint(op), op.location:
        for axis in axes:
            position = _position(axis.expression)
            if position is None:
                _assert_inside(axis, loops)
            elif loops[position] is not axis:
                _assert_equal(axis, loops[position])


def _check_parts(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    """Parts have all extents in common, but for those that are added up."""
    along = ir.IntegerAttr(op.attributes[_CONCATENATIONS[op.name]]).value
    axes = [
        _Axis(value, axis, ir.AffineExpr.get_dim(axis), _name(value, axis, number, op, function, signature))
        for number, value in enumerate([*op.operands, op.results[0]])
        for axis in range(ir.RankedTensorType(value.type).rank)
    ]
    whole = axes.pop(along - ir.RankedTensorType(op.results[0].type).rank)
    loops = _loops([axis for axis in axes if axis.axis != along])
    with ir.InsertionPoint(op), op.location:
        for axis in axes:
            if axis.axis != along and loops[axis.axis] is not axis and axis.value != op.results[0]:
                _assert_equal(axis, loops[axis.axis])
        parts = [axis for axis in axes if axis.axis == along]
        if whole.static() is not None and any(part.static() is None for part in parts):
            total = functools.reduce(lambda a, b: arith.AddIOp(a, b).result, [part.extent() for part in parts])
            same = arith.CmpIOp(arith.CmpIPredicate.eq, total, whole.extent()).result
            asserts.check(same, f"extent {along} of {op.name} ({{}}) is not {whole.static()}", total)


def _check_copy(op: ir.Operation, function: ir.Operation, signature: Function) -> None:
    """What is copied has the extents of the place it goes to; of copies in loops ``slicecheck`` has a look at that."""
    if not all(ir.ShapedType(value.type).has_rank for value in list(op.operands)[:2]):
        return
    given, taken = (
        [
            _Axis(value, axis, ir.AffineExpr.get_dim(axis), _name(value, axis, number, op, function, signature))
            for axis in range(ir.ShapedType(value.type).rank)
        ]
        for number, value in enumerate(list(op.operands)[:2])
    )
    with ir.InsertionPoint(op), op.location:
        if op.name == "memref.copy":
            for one, other in zip(given, taken, strict=True):
                _assert_equal(one, other)
            return
        for one, size in zip(given, _sizes(op, len(given)), strict=False):
            if isinstance(size, ir.Value) or one.static() != size:
                wanted = size if isinstance(size, ir.Value) else _index(size)
                given_extent = one.extent()
                same = arith.CmpIOp(arith.CmpIPredicate.eq, given_extent, wanted).result
                text = f"{one.name} ({{}}) is not that of the slice it becomes ({{}})"
                asserts.check(same, text, given_extent, wanted)


def _sizes(op: ir.Operation, rank: int) -> list[ir.Value | int]:
    """Sizes of the slice without dimensions of one element that what is inserted lacks; [] if it is not sure which."""
    _, _, offsets, count, _ = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
    dynamic = list(op.operands)[2 + offsets : 2 + offsets + count]
    sizes = slicecheck.mixed(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]), dynamic)
    if len(sizes) != rank:
        sizes = [size for size in sizes if isinstance(size, ir.Value) or size != 1]
    return sizes if len(sizes) == rank else []


def _loops(axes: Sequence[_Axis]) -> dict[int, _Axis]:
    """For each loop the dimension that gives its extent: a static one if there is one, else the first."""
    loops: dict[int, _Axis] = {}
    for axis in axes:
        position = _position(axis.expression)
        if position is not None and (position not in loops or loops[position].static() is None is not axis.static()):
            loops[position] = axis
    return loops


def _position(expression: ir.AffineExpr) -> int | None:
    """Number of the loop, when the dimension is indexed by one loop alone."""
    return int(expression.position) if isinstance(expression, ir.AffineDimExpr) else None


def _assert_equal(axis: _Axis, loop: _Axis) -> None:
    static = loop.static()
    if static is not None and static == axis.static():
        return
    numbers = axis.extent(), loop.extent()
    same = arith.CmpIOp(arith.CmpIPredicate.eq, *numbers).result
    wanted = str(static) if static is not None else f"{loop.name} ({{}})"
    asserts.check(same, f"{axis.name} ({{}}) is not {wanted}", *numbers)


def _assert_inside(axis: _Axis, loops: dict[int, _Axis]) -> None:
    """For windows such as ``d0 + d1``: the last position must lie inside."""
    if axis.static() is not None and all(loop.static() is not None for loop in loops.values()):
        return  # the verifier has looked at it
    last = _last(axis.expression, loops)
    if last is not None:
        extent = axis.extent()
        inside = arith.CmpIOp(arith.CmpIPredicate.slt, last, extent).result
        text = f"{axis.name} ({{}}) is too small for the window that runs over it to (index {{}})"
        asserts.check(inside, text, extent, last)


def _last(expression: ir.AffineExpr, loops: dict[int, _Axis]) -> ir.Value | None:
    """Value of the expression in the last iteration; None for expressions that do not grow with the loops."""
    position = _position(expression)
    if position is not None:
        return arith.SubIOp(loops[position].extent(), _index(1)).result if position in loops else None
    if isinstance(expression, ir.AffineConstantExpr):
        return _index(expression.value) if expression.value >= 0 else None
    if not isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = _last(expression.lhs, loops), _last(expression.rhs, loops)
    if left is None or right is None:
        return None
    make = arith.AddIOp if isinstance(expression, ir.AffineAddExpr) else arith.MulIOp
    return make(left, right).result


def _name(
    value: ir.Value, axis: int, number: int, op: ir.Operation, function: ir.Operation, signature: Function
) -> str:
    if mlir.owner(value) == function.regions[0].blocks[0]:
        return f"extent {axis} of '{signature.args[ir.BlockArgument(value).arg_number].name}'"
    # What is computed has its extents from arguments: this one perhaps from a single one.
    match list((extents.extent(value, axis) or {}).items()):
        case [(((argument, dimension),), 1)]:
            return f"extent {dimension} of '{signature.args[argument].name}'"
    return f"extent {axis} of operand {number} of {op.name}"


def _begun(value: ir.Value) -> ir.Value:
    """What a linalg operation's result has its extents from; upstream asks indexing maps, which may be constant."""
    made_by = mlir.owner(value)
    while isinstance(made_by, ir.Operation) and made_by.name.startswith("linalg."):
        value = made_by.operands[len(made_by.operands) - len(made_by.results) + ir.OpResult(value).result_number]
        made_by = mlir.owner(value)
    return value


def _index(value: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), value).result
