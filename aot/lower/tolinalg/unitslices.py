"""Slices that leave out dimensions say which, so that folding their operands changes nothing but their operands.

In: functions on tensors, before any pass. Out: the same. MLIR takes the first dimensions of size 1 for those that a
slice leaves out, whatever its type says: ``[1, %n, 1]`` to ``tensor<1x?xf32>`` becomes a ``tensor<?x1xf32>``, which is
another shape or a failure of the pass. Of buffers it looks for those that have strides of the sliced one, and finds
none, or others, where the slice has steps. So where it makes a difference the slice keeps all dimensions, and a reshape
leaves them out. Steps along dimensions of size 1 mean nothing, and are 1.

``extract_slice %x[0, 0, %i] [1, %n, 1] [1, 1, 1]`` to ``tensor<1x?xf32>``  becomes  one to ``tensor<1x?x1xf32>`` and
``collapse_shape [[0], [1, 2]]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import tensor

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.checks.slicecheck import mixed
from aot.lower.tolinalg import elementwise

_OUT = "tensor.extract_slice"
_IN = frozenset({"tensor.insert_slice", "tensor.parallel_insert_slice"})
_PARTS = ("static_offsets", "static_sizes", "static_strides")


@dataclass(frozen=True)
class _Slice:
    """A slice, and which dimensions its type leaves out."""

    sizes: tuple[ir.Value | int, ...]
    steps: tuple[ir.Value | int, ...]
    kind: ir.RankedTensorType
    """Of the piece, without the dimensions that are left out."""
    left_out: frozenset[int]

    def is_ambiguous(self) -> bool:
        """Whether leaving out the first dimensions of size 1 instead would be another shape, or there are steps."""
        if any(step != 1 for step in self.steps):
            return True
        ones = _ones(self.sizes)
        first = [axis for axis, one in enumerate(ones) if one][: len(self.left_out)]
        whole = list(range(len(ones)))
        shapes = (
            [None if ones[axis] else axis for axis in whole if axis not in left] for left in (first, self.left_out)
        )
        return next(shapes) != next(shapes)

    def full(self) -> ir.RankedTensorType:
        """The type of the piece with all dimensions."""
        given = iter(self.kind.shape)
        extents = [1 if axis in self.left_out else next(given) for axis in range(len(self.sizes))]
        return ir.RankedTensorType.get(extents, self.kind.element_type)

    def groups(self) -> list[list[int]]:
        """The dimensions of the full piece that make each one of its type."""
        groups: list[list[int]] = [[] for _ in range(self.kind.rank)]
        number = 0
        for axis in range(len(self.sizes)):
            if groups:
                groups[min(number, len(groups) - 1)].append(axis)
            number += axis not in self.left_out
        return groups


def settle(module: ir.Module) -> None:
    """Rewrite the slices of a module."""
    for op in mlir.walk(module):
        if op.name == _OUT or op.name in _IN:
            _forget_strides(op)
            found = _read(op)
            if found.left_out and found.is_ambiguous():
                (_extract if op.name == _OUT else _insert)(op, found)


def _parts(op: ir.Operation) -> list[list[ir.Value | int]]:
    """Offsets, sizes and strides."""
    counts = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    values = list(op.operands)[sum(counts[:-3]) :]
    parts = []
    for name, count in zip(_PARTS, counts[-3:], strict=True):
        parts.append(mixed(ir.DenseI64ArrayAttr(op.attributes[name]), values[:count]))
        values = values[count:]
    return parts


def _forget_strides(op: ir.Operation) -> None:
    """Strides of dimensions of size 1 become 1."""
    _, sizes, strides = _parts(op)
    ones = _ones(sizes)
    unknown = ir.ShapedType.get_dynamic_size()
    static = [
        unknown if isinstance(stride, ir.Value) else int(one) or stride
        for one, stride in zip(ones, strides, strict=True)
    ]
    op.attributes[_PARTS[2]] = ir.DenseI64ArrayAttr.get(static, op.context)
    first = len(op.operands) - static.count(unknown)
    for number, axis in enumerate(axis for axis, stride in enumerate(static) if stride == unknown):
        if ones[axis]:
            with ir.InsertionPoint(_place(op)), op.location:
                op.operands[first + number] = elementwise.index(1)


def _ones(sizes: Sequence[ir.Value | int]) -> list[bool]:
    """Dimensions of size 1, as far as it is known."""
    return [(literals.whole(size) if isinstance(size, ir.Value) else size) == 1 for size in sizes]


def _place(op: ir.Operation) -> ir.Operation:
    """Where operations that the slice needs may stand."""
    return op.parent if op.name == "tensor.parallel_insert_slice" else op


def _read(op: ir.Operation) -> _Slice:
    piece = op.results[0] if op.name == _OUT else op.operands[0]
    kind = ir.RankedTensorType(piece.type)
    _, sizes, steps = _parts(op)
    return _Slice(tuple(sizes), tuple(steps), kind, left_out(sizes, kind.shape))


def left_out(sizes: Sequence[ir.Value | int], extents: Sequence[int]) -> frozenset[int]:
    """Dimensions that a type of these extents lacks: MLIR's rule, from the first one on."""
    left, number, unknown = set(), 0, ir.ShapedType.get_dynamic_size()
    for axis, size in enumerate(sizes):
        if number < len(extents) and (unknown if isinstance(size, ir.Value) else size) == extents[number]:
            number += 1
        else:
            left.add(axis)
    return frozenset(left)


def _extract(op: ir.Operation, found: _Slice) -> None:
    with ir.InsertionPoint(op), op.location:
        full = op.clone()
        full.operation.results[0].set_type(found.full())
        narrow = tensor.CollapseShapeOp(found.kind, full.operation.results[0], _reassociation(found))
    op.results[0].replace_all_uses_with(narrow.result)
    op.erase()


def _insert(op: ir.Operation, found: _Slice) -> None:
    piece, kind = op.operands[0], found.kind
    with ir.InsertionPoint(_place(op)), op.location:
        extents = iter([elementwise.extent(piece, axis) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)])
        full = found.full()
        dynamic = [next(extents) for axis in range(full.rank) if full.is_dynamic_dim(axis)]
        wide = tensor.ExpandShapeOp(full, piece, _reassociation(found), dynamic, full.shape)
    op.operands[0] = wide.result


def _reassociation(found: _Slice) -> ir.ArrayAttr:
    integer = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get([ir.IntegerAttr.get(integer, axis) for axis in group]) for group in found.groups()]
    )
