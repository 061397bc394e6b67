"""Which linalg operations are products of matrices, whatever they are called and however their arrays lie.

In: a linalg operation on buffers. Out: a Contraction: its arrays, its loops by meaning, and the conversions that its
factors go through; None for everything else.

``linalg.batch_matmul`` with ``(b, m, n, k) -> (b, n, k)`` for the second operand is one, as is the generic form of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import linalg, memref

from aot import mlir
from aot.lower import rtcalls

_SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
"""Sum -> product of the same kind."""
_TYPES = frozenset({"f32", "f64", "i32", "i64"})


@dataclass(frozen=True)
class Array:
    """One operand and the loop that gives each of its indices."""

    value: ir.Value
    loops: tuple[int, ...]
    conversions: tuple[ir.Operation, ...] = ()
    """Operations of the body from the element to the factor, in order."""

    def extent(self, loop: int) -> ir.Value:
        """Extent of the array along a loop, at the insertion point."""
        return memref.DimOp(self.value, rtcalls.index(self.loops.index(loop))).result

    def load(self, places: dict[int, ir.Value]) -> ir.Value:
        """The factor at a point of the iteration space."""
        value = memref.LoadOp(self.value, [places[loop] for loop in self.loops]).result
        for each in self.conversions:
            copy = each.clone().operation
            copy.operands[0] = value
            value = copy.results[0]
        return value

    def is_along(self, loop: int) -> bool:
        """Whether neighbouring elements are neighbours along the loop."""
        return self.loops[-1] == loop and is_contiguous(self.value)


@dataclass(frozen=True)
class Contraction:
    """``out[batch, rows, columns] += left[batch, rows, inner] * right[batch, inner, columns]``, in any layout."""

    left: Array
    right: Array
    out: Array
    batch: tuple[int, ...]
    rows: int
    columns: int
    inner: int
    element: ir.Type
    """Of the output and both factors."""


def match(op: ir.Operation) -> Contraction | None:
    """The contraction that an operation is."""
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results) or not len(op.regions):
        return None
    maps = linalg.get_indexing_maps(op)
    if maps is None or len(maps) != 3 or not all(isinstance(value.type, ir.MemRefType) for value in op.operands):
        return None
    loops = [_plain(each.value) for each in maps]
    conversions = _factors(op)
    if conversions is None:
        return None
    arrays = [Array(value, each) for value, each in zip(op.operands, loops, strict=True) if each is not None]
    if len(arrays) != 3:
        return None
    left, right, out = arrays
    left, right = replace(left, conversions=conversions[0]), replace(right, conversions=conversions[1])
    return _classified(left, right, out)


def _plain(each: ir.AffineMap) -> tuple[int, ...] | None:
    """Loops of a map without sums and constants."""
    if not all(isinstance(result, ir.AffineDimExpr) for result in each.results):
        return None
    return tuple(result.position for result in each.results)


def _classified(left: Array, right: Array, out: Array) -> Contraction | None:
    one, two, three = (set(array.loops) for array in (left, right, out))
    batch = [loop for loop in out.loops if loop in one & two]
    groups = [[loop for loop in out.loops if loop in one - two], [loop for loop in out.loops if loop in two - one]]
    inner = [loop for loop in left.loops if loop in (one & two) - three]
    if [len(group) for group in (*groups, inner)] != [1, 1, 1] or len(one | two) != len(batch) + 3:
        return None
    if one | two != one | two | three:
        return None
    rows, columns = groups[0][0], groups[1][0]
    if out.loops[-1] == rows:
        left, right, rows, columns = right, left, columns, rows
    element = ir.MemRefType(out.value.type).element_type
    return Contraction(left, right, out, tuple(batch), rows, columns, inner[0], element)


def _factors(op: ir.Operation) -> tuple[tuple[ir.Operation, ...], tuple[ir.Operation, ...]] | None:
    """Conversions of both factors, when the body is ``out + left * right``."""
    body = op.regions[0].blocks[0]
    left, right, out = body.arguments
    total = mlir.owner(list(body.operations)[-1].operation.operands[0])
    if isinstance(total, ir.Block) or total.name not in _SUMS or str(out.type) not in _TYPES:
        return None
    terms = [value for value in total.operands if value != out]
    if len(terms) != 1:
        return None
    product = mlir.owner(terms[0])
    if isinstance(product, ir.Block) or product.name != _SUMS[total.name] or product.block != body:
        return None
    ways = [_conversions(value, (left, right)) for value in product.operands]
    found = dict(way for way in ways if way is not None)
    return (found[left], found[right]) if left in found and right in found else None


def _conversions(value: ir.Value, ends: Sequence[ir.Value]) -> tuple[ir.Value, tuple[ir.Operation, ...]] | None:
    """The element that a factor comes from, through operations of one operand."""
    path: list[ir.Operation] = []
    while value not in ends:
        op = mlir.owner(value)
        if isinstance(op, ir.Block) or len(op.operands) != 1 or len(op.regions) or not op.name.startswith("arith."):
            return None
        path.insert(0, op)
        value = op.operands[0]
    return value, tuple(path)


def is_contiguous(value: ir.Value) -> bool:
    """Whether the last index runs over neighbouring elements."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return bool(strides) and list(strides)[-1] == 1
