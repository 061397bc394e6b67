"""Which linalg operations are products of matrices, whatever they are called and however their arrays lie.

In: a linalg operation on buffers. Out: a Contraction: its arrays, its loops by meaning, and the conversions that its
factors go through; None for everything else.

``linalg.batch_matmul`` with ``(b, m, n, k) -> (b, n, k)`` for the second operand is one, as is the generic form of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import memref

from aot.lower.analysis import factors
from aot.lower.dialects import linalg
from aot.lower.hostmodule import rtcalls

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
    body = op.regions[0].blocks[0]
    conversions = factors.of(body) if str(body.arguments[-1].type) in _TYPES else None
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


def is_contiguous(value: ir.Value) -> bool:
    """Whether the last index runs over neighbouring elements."""
    strides, _ = ir.MemRefType(value.type).get_strides_and_offset()
    return bool(strides) and list(strides)[-1] == 1
