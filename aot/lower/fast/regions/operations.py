"""Linalg operations on buffers as loops over a space, with the place of each operand in it.

In: a ``linalg.generic`` on memrefs. Out: an Operation: extents and kinds of its loops, and for each operand the loop
of each of its indices; or None when an operand is reached in a way that no fast schedule knows.

``(i, j) -> (i)`` of an operand of rank 1 becomes ``Operand(value, loops=(0,))``.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import views
from aot.lower.dialects import linalg
from aot.lower.fast.regions.extents import Extents, Key

ZERO = -1
"""In place of a loop: the index is always 0."""


@dataclass(frozen=True)
class Operand:
    """One operand."""

    value: ir.Value
    """A memref, or a number of host code."""
    loops: tuple[int, ...]
    """Loop of each index; ZERO for a constant 0."""
    read: bool
    """Whether the body looks at the element."""
    written: bool

    @property
    def is_memory(self) -> bool:
        return views.is_memref(self.value)


@dataclass(frozen=True, eq=False)
class Operation:
    """One linalg operation."""

    op: ir.Operation
    extents: tuple[Key, ...]
    reduces: tuple[bool, ...]
    """Of each loop: whether it is a reduction."""
    operands: tuple[Operand, ...]

    @property
    def body(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def outputs(self) -> tuple[int, ...]:
        """Numbers of the operands that are written."""
        return tuple(number for number, each in enumerate(self.operands) if each.written)

    @property
    def yielded(self) -> list[ir.Value]:
        return list(list(self.body.operations)[-1].operation.operands)

    @property
    def reads_memory(self) -> bool:
        return any(each.is_memory and each.read for each in self.operands)

    @property
    def split(self) -> tuple[int | None, bool]:
        """Number of loops before the first change of kind, and whether those reduce; None for more changes."""
        turned = bool(self.reduces) and self.reduces[0] and not all(self.reduces)
        split = next((number for number, each in enumerate(self.reduces) if each != turned), len(self.reduces))
        return (split if all(each != turned for each in self.reduces[split:]) else None), turned


def read(op: ir.Operation, known: Extents) -> Operation | str:
    """The operation, or why it is not one of those that fast schedules know."""
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or []]
    if op.name != "linalg.generic" or len(maps) != len(op.operands):
        return f"{op.name} is no elementwise operation, reduction or permutation"
    inputs = int(next(iter(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))))
    body = op.regions[0].blocks[0]
    operands = []
    for number, (value, each) in enumerate(zip(op.operands, maps, strict=True)):
        loops = _loops(value, each)
        if loops is None:
            return f"operand {number} is indexed by {each}"
        operands.append(Operand(value, loops, bool(list(body.arguments[number].uses)), number >= inputs))
    reason = _unfit_body(body)
    if reason:
        return reason
    kinds = [str(each) for each in op.attributes["iterator_types"]]
    extents = _extents(operands, len(kinds), known)
    if extents is None:
        return "a loop that no operand gives an extent"
    return Operation(op, extents, tuple("reduction" in each for each in kinds), tuple(operands))


def _loops(value: ir.Value, indexing: ir.AffineMap) -> tuple[int, ...] | None:
    """The loop of each index; None when one is neither a loop nor the only element."""
    if not views.is_memref(value):
        return () if not len(indexing.results) else None
    loops = []
    for axis, result in enumerate(indexing.results):
        if isinstance(result, ir.AffineDimExpr):
            loops.append(result.position)
        elif isinstance(result, ir.AffineConstantExpr) and result.value == 0:
            loops.append(ZERO)
        else:
            return None
        del axis
    used = [loop for loop in loops if loop != ZERO]
    return tuple(loops) if len(set(used)) == len(used) else None


_SCALARS = (ir.IntegerType, ir.FloatType, ir.IndexType)


def _unfit_body(body: ir.Block) -> str:
    if not all(isinstance(argument.type, _SCALARS) for argument in body.arguments):
        return "elements that are complex numbers or vectors"
    for op in body.operations:
        for inner in mlir.walk(op.operation):
            nested = inner.parent.operation != body.owner.operation
            memory = inner.name.startswith("memref.") and inner.name != "memref.load"
            if memory or inner.name in ("tensor.extract", "func.call"):
                return f"the body holds {inner.name}"
            if nested and inner.name == "linalg.index":
                return "the body asks for an index inside a branch"
            if inner.name in ("cf.assert", "gpu.printf"):
                return f"the body holds {inner.name}"
    return ""


def _extents(operands: list[Operand], rank: int, known: Extents) -> tuple[Key, ...] | None:
    found: list[Key | None] = [None] * rank
    for operand in operands:
        for axis, loop in enumerate(operand.loops):
            if loop == ZERO:
                continue
            key = known.key(operand.value, axis)
            before = found[loop]
            if before is not None:
                known.equal(before, key)
            found[loop] = known.find(key)
    keys = tuple(known.find(key) for key in found if key is not None)
    return keys if len(keys) == rank else None
