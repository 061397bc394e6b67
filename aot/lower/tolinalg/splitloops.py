"""Generic operations of linalg whose loops are split, so that they read what was collapsed as it was.

In: an operation, and the collapse of which it reads the result. Out: the operation with a loop for each dimension that
was collapsed, and collapses of its results; nothing where it sums along such a loop, or asks for its index.

``collapse %x [[0, 1]] -> %y; generic maps [(i) -> (i)] %y``  becomes  ``generic maps [(i, j) -> (i, j)] %x`` and a
collapse of its result
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from aot import mlir
from aot.lower.analysis import opwalk

GENERIC = "linalg.generic"
_MAPS = "indexing_maps"


@dataclass(frozen=True)
class Parts:
    """What a loop is split into."""

    source: ir.Value
    """A tensor that has the parts as dimensions."""
    axes: tuple[int, ...]
    """Those dimensions of it."""

    def sizes(self) -> list[ir.Value | int]:
        """Extents, dynamic ones as values at the insertion point."""
        shape, unknown = ir.RankedTensorType(self.source.type).shape, ir.ShapedType.get_dynamic_size()
        return [_extent(self.source, axis) if shape[axis] == unknown else shape[axis] for axis in self.axes]


def split(op: ir.Operation, collapse: ir.Operation) -> list[ir.Operation]:
    """Let an operation read what was collapsed, with loops for its parts; the collapses of its results."""
    if op.name != GENERIC or not is_plain(op):
        return []
    place = list(op.operands).index(collapse.results[0])
    loops, groups = loops_of(maps_of(op)[place]), groups_of(collapse)
    parts = {
        loop: Parts(collapse.operands[0], group)
        for loop, group in zip(loops, groups, strict=True)
        if loop is not None and len(group) > 1
    }
    kinds = [str(each) for each in op.attributes["iterator_types"]]
    asked = [ir.IntegerAttr(each.attributes["dim"]).value for each in opwalk.named(op, "linalg.index")]
    if any("reduction" in kinds[loop] or loop in asked for loop in parts):
        return []
    with ir.InsertionPoint(op), op.location:
        return _Splitting(op, parts).made()


class _Splitting:
    """An operation whose loops are split."""

    def __init__(self, op: ir.Operation, parts: Mapping[int, Parts]) -> None:
        self.op, self.parts, self.maps = op, parts, maps_of(op)
        self.loops: list[list[int]] = []
        """The new loops of each."""
        count = 0
        for loop in range(self.maps[0].n_dims):
            size = len(parts[loop].axes) if loop in parts else 1
            self.loops.append(list(range(count, count + size)))
            count += size
        self.count = count

    def made(self) -> list[ir.Operation]:
        """Replace the operation; the collapses that have its results now."""
        op, results = self.op, len(self.op.results)
        operands = [self._operand(number) for number in range(len(op.operands))]
        maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(self._map(each)) for each in self.maps], op.context)
        kinds = [op.attributes["iterator_types"][loop] for loop, new in enumerate(self.loops) for _ in new]
        outs = operands[len(operands) - results :]
        made = linalg.GenericOp(
            [each.type for each in outs], operands[: len(operands) - results], outs, maps, ir.ArrayAttr.get(kinds)
        ).operation
        op.regions[0].blocks[0].append_to(made.regions[0])
        for index in opwalk.named(made, "linalg.index"):
            (loop,) = self.loops[ir.IntegerAttr(index.attributes["dim"]).value]
            index.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
        collapses = []
        for number, (old, new) in enumerate(zip(op.results, made.results, strict=True)):
            collapse = tensor.CollapseShapeOp(
                old.type, new, _consecutive(self._counts(loops_of(self.maps[len(operands) - results + number])))
            )
            old.replace_all_uses_with(collapse.result)
            collapses.append(collapse.operation)
        op.erase()
        return collapses

    def _map(self, each: ir.AffineMap) -> ir.AffineMap:
        indices: list[ir.AffineExpr] = []
        for loop in loops_of(each):
            first = [ir.AffineConstantExpr.get(0)]
            indices += first if loop is None else [ir.AffineDimExpr.get(new) for new in self.loops[loop]]
        return ir.AffineMap.get(self.count, 0, indices)

    def _counts(self, loops: Sequence[int | None]) -> list[int]:
        """How many dimensions each of an operand's becomes, by its loop."""
        return [1 if loop is None else len(self.loops[loop]) for loop in loops]

    def _operand(self, number: int) -> ir.Value:
        loops = loops_of(self.maps[number])
        return (
            self._expanded(self.op.operands[number], loops)
            if set(loops) & set(self.parts)
            else self.op.operands[number]
        )

    def _expanded(self, value: ir.Value, loops: Sequence[int | None]) -> ir.Value:
        """A tensor with dimensions for the parts; fresh memory, and what fills it, of that shape at once."""
        op = mlir.owner(value)
        if not isinstance(op, ir.Block) and op.name == "linalg.fill":
            number, target = op.operands
            return linalg.fill(number, outs=[self._expanded(target, loops)])
        kind, unknown = ir.RankedTensorType(value.type), ir.ShapedType.get_dynamic_size()
        sizes: list[ir.Value | int] = []
        for axis, loop in enumerate(loops):
            extent = kind.shape[axis]
            if loop is not None and loop in self.parts:
                sizes += self.parts[loop].sizes()
            else:
                sizes.append(_extent(value, axis) if extent == unknown else extent)
        if not isinstance(op, ir.Block) and op.name == "tensor.empty":
            return tensor.EmptyOp(sizes, kind.element_type).result
        return expanded(value, self._counts(loops), sizes)


def make_as_returned(collapse: ir.Operation) -> None:
    """Let what is collapsed be made in memory of the collapsed shape: nothing else could be returned without a copy."""
    made_by = mlir.owner(collapse.operands[0])
    if isinstance(made_by, ir.Block) or made_by.name != GENERIC or len(made_by.results) != 1:
        return
    empty = mlir.owner(made_by.operands[len(made_by.operands) - 1])
    if isinstance(empty, ir.Block) or empty.name != "tensor.empty":
        return
    kind, groups = ir.RankedTensorType(collapse.results[0].type), groups_of(collapse)
    with ir.InsertionPoint(made_by), made_by.location:
        sizes = Parts(empty.results[0], tuple(range(len(sum(groups, ()))))).sizes()
        whole = [_product([sizes[axis] for axis in group]) for group in groups]
        fresh = tensor.EmptyOp(whole, kind.element_type).result
        made_by.operands[len(made_by.operands) - 1] = expanded(fresh, [len(group) for group in groups], sizes)


def expanded(value: ir.Value, counts: Sequence[int], sizes: Sequence[ir.Value | int]) -> ir.Value:
    """A tensor with so many dimensions, of these sizes, for each that it has."""
    if len(sizes) == len(counts):
        return value
    shape = [ir.ShapedType.get_dynamic_size() if isinstance(size, ir.Value) else size for size in sizes]
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    dynamic = [size for size in sizes if isinstance(size, ir.Value)]
    return tensor.ExpandShapeOp(kind, value, _consecutive(counts), dynamic, shape).result


def _consecutive(counts: Sequence[int]) -> list[list[int]]:
    """Groups of neighbouring dimensions."""
    ends = list(itertools.accumulate(counts))
    return [list(range(end - count, end)) for count, end in zip(counts, ends, strict=True)]


def _extent(value: ir.Value, axis: int) -> ir.Value:
    return tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), axis).result).result


def _product(sizes: Sequence[ir.Value | int]) -> ir.Value | int:
    """Elements of parts together."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    index = ir.IndexType.get()
    values = [size for size in sizes if isinstance(size, ir.Value)]
    if not values:
        return known
    total = values[0]
    for each in [*values[1:], *([arith.ConstantOp(index, known).result] if known != 1 else [])]:
        total = arith.MulIOp(total, each).result
    return total


def groups_of(op: ir.Operation) -> list[tuple[int, ...]]:
    """Dimensions of the larger shape that make each one of the smaller."""
    groups = ir.ArrayAttr(op.attributes["reassociation"])
    return [tuple(ir.IntegerAttr(axis).value for axis in group) for group in groups]


def is_plain(op: ir.Operation) -> bool:
    """Whether all indices of its operands are loops, or 0."""
    indices = [index for each in maps_of(op) for index in each.results]
    return all(
        isinstance(each, ir.AffineDimExpr) or (isinstance(each, ir.AffineConstantExpr) and each.value == 0)
        for each in indices
    )


def loops_of(each: ir.AffineMap) -> list[int | None]:
    """The loops of the indices; None for one that is 0."""
    return [int(index.position) if isinstance(index, ir.AffineDimExpr) else None for index in each.results]


def maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in op.attributes[_MAPS]]


def set_maps(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    op.attributes[_MAPS] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps], op.context)
