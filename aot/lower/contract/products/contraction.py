"""Which linalg operations are products of matrices: loops by their part in the product, factors by their conversions.

In: a linalg operation on buffers. Out: a Contraction, or why it is none.

``linalg.matmul``, ``batch_matmul``, ``vecmat`` and every generic form are alike here: only maps and the body count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from aot.lower.analysis import factors
from aot.lower.dialects import linalg
from aot.lower.fast.regions.extents import Extents, Key
from aot.lower.numbers import precision


@dataclass(frozen=True)
class Operand:
    """A memref and the loop of each of its indices."""

    value: ir.Value
    loops: tuple[int, ...]
    windows: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of an operand whose indices are sums of loops: for each index its loops and their factors; ``loops`` has all."""

    def axis(self, loop: int) -> tuple[int, int]:
        """The index that a loop moves, and by how much."""
        if not self.windows:
            return self.loops.index(loop), 1
        return next((axis, by) for axis, terms in enumerate(self.windows) for each, by in terms if each == loop)


@dataclass(frozen=True)
class Contraction:
    """``out[batch, m, n] += left[batch, m, k] * right[batch, k, n]`` with any number of loops of each kind."""

    op: ir.Operation
    left: Operand
    right: Operand
    out: Operand
    conversions: tuple[tuple[ir.Operation, ...], tuple[ir.Operation, ...]]
    """From the elements of left and right to the factors."""
    extents: tuple[Key, ...]
    """Of each loop."""
    tf32: bool
    """Whether products may be rounded so."""
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    """Loops in the order of the result's indices."""
    k: tuple[int, ...]

    def turned(self) -> Contraction:
        """The same product as the transpose of another one."""
        return Contraction(
            *(self.op, self.right, self.left, self.out, self.conversions[::-1], self.extents, self.tf32),
            *(self.batch, self.n, self.m, self.k),
        )


def read(op: ir.Operation, known: Extents) -> Contraction | str:
    """The contraction that an operation is."""
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results) or not len(op.regions):
        return "it is no product of two operands"
    maps = linalg.get_indexing_maps(op)
    if maps is None or len(maps) != 3 or not all(isinstance(value.type, ir.MemRefType) for value in op.operands):
        return "it is no product of two operands"
    conversions = factors.of(op.regions[0].blocks[0])
    if conversions is None:
        return "it is no sum of products"
    operands = []
    for value, each in zip(op.operands, maps, strict=True):
        operand = _operand(value, ir.AffineMapAttr(each).value)
        if operand is None:
            return f"an operand is indexed by {each}"
        operands.append(operand)
    extents = _extents(operands, maps[0].value.n_dims, known)
    return _sorted(op, operands, conversions, extents)


def _operand(value: ir.Value, each: ir.AffineMap) -> Operand | None:
    """The operand, if its indices are loops or sums of loops, each of them once."""
    terms = [_terms(result) for result in each.results]
    loops = tuple(loop for term in terms for loop, _ in term)
    if not all(terms) or len(set(loops)) != len(loops):
        return None
    plain = all(len(term) == 1 and term[0][1] == 1 for term in terms)
    return Operand(value, loops, () if plain else tuple(terms))


def _terms(result: ir.AffineExpr) -> tuple[tuple[int, int], ...]:
    """Loops and their factors; () for anything else."""
    if isinstance(result, ir.AffineDimExpr):
        return ((result.position, 1),)
    if isinstance(result, ir.AffineMulExpr):
        inner, by = result.lhs, result.rhs
        if isinstance(inner, ir.AffineDimExpr) and isinstance(by, ir.AffineConstantExpr):
            return ((inner.position, by.value),)
    if isinstance(result, ir.AffineAddExpr):
        left, right = _terms(result.lhs), _terms(result.rhs)
        return (*left, *right) if left and right else ()
    return ()


def _extents(operands: Sequence[Operand], rank: int, known: Extents) -> tuple[Key, ...]:
    found: dict[int, Key] = {}
    for operand in operands:
        if operand.windows:
            continue
        for axis, loop in enumerate(operand.loops):
            key = known.key(operand.value, axis)
            if loop in found:
                known.equal(found[loop], key)
            found[loop] = known.find(key)
    return tuple(known.find(found[loop]) for loop in range(rank)) if len(found) == rank else ()


def _sorted(
    op: ir.Operation,
    operands: Sequence[Operand],
    conversions: tuple[tuple[ir.Operation, ...], tuple[ir.Operation, ...]],
    extents: tuple[Key, ...],
) -> Contraction | str:
    """Loops by the operands that they index; ``n`` holds the result's innermost one."""
    left, right, out = operands
    one, two, three = (set(each.loops) for each in operands)
    batch = tuple(loop for loop in out.loops if loop in one & two)
    m = tuple(loop for loop in out.loops if loop in one - two)
    n = tuple(loop for loop in out.loops if loop in two - one)
    k = tuple(loop for loop in left.loops if loop in (one & two) - three)
    if not extents or len(batch) + len(m) + len(n) + len(k) != len(extents) or not three <= one | two:
        return "a loop has no part in the product"
    if not k:
        return "it sums nothing up"
    if not m and not n:
        return "its results are not a matrix"
    tf32 = precision.is_tf32(op.regions[0].blocks[0])
    found = Contraction(op, left, right, out, conversions, extents, tf32, batch, m, n, k)
    found = found.turned() if not n or (m and out.loops[-1] in m) else found
    if found.right.windows or found.out.windows or (found.left.windows and (batch or not m)):
        return "a window runs over the columns of the result, or over every product"
    return found
