"""Single elements that loops of the source, or host code, read and write are checked before by host code.

In: functions on buffers, before deallocation. Out: the same, with ``cf.assert``; names of functions in which something
is left that nothing checks.

``memref.load %x[%i] : memref<?xf32>`` in ``scf.for %i = %a to %n step %s`` gets assertions in front of the loop that
the first and the last ``%i`` are indices of ``%x``: "an index in a loop (0 to 7) leaves dimension 0 of 'x' (5)". Places
that are computed from data, and what is not done in each iteration, stay unchecked.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import affine, arith, memref

from aot import mlir
from aot.lower.analysis import effects, literals
from aot.lower.checks import asserts, looprange, slicecheck
from aot.lower.checks.looprange import Nest, Range, value_of
from aot.lower.source.signature import public_functions
from aot.model import Function

_ELEMENTS = {"memref.load": 0, "memref.store": 1, "affine.load": 0, "affine.store": 1}
"""What is checked, and which operand is the buffer."""
_OTHERS = effects.ACCESSES - frozenset({*_ELEMENTS, "memref.copy", "memref.prefetch"})
_RESHAPES = frozenset({"memref.expand_shape", "memref.reshape"})
_PARALLEL = frozenset({"scf.parallel", "scf.forall", "affine.parallel"})
"""In these ``shapecheck`` looks at nothing."""


def insert(module: ir.Module, functions: Sequence[Function]) -> frozenset[str]:
    """Put assertions in front of accesses of elements, or of the loops around them."""
    by_name = {function.name: function for function in functions}
    unchecked: set[str] = set()
    for function in public_functions(module):
        signature = by_name[mlir.symbol_name(function)]
        for op in mlir.walk(function):
            if op.name in _ELEMENTS and not _in_linalg(op):
                complete = _check(op, function, signature)
            else:
                complete = not _is_unchecked(op)
            if not complete:
                unchecked.add(signature.name)
    return frozenset(unchecked)


def _in_linalg(op: ir.Operation) -> bool:
    """Elements are taken from places that stand in arrays, or are those of the operation's own loops."""
    return any(parent.name.startswith("linalg.") for parent in mlir.parents(op))


def _is_unchecked(op: ir.Operation) -> bool:
    """Whether this is something else that may leave an array, and nobody looks at it."""
    if op.name in _OTHERS:
        return not _in_linalg(op)
    around = {parent.name for parent in mlir.parents(op)}
    if op.name in _RESHAPES:
        return not around <= looprange.ONCE
    dynamic = any(isinstance(each.type, ir.MemRefType) and not each.type.has_static_shape for each in op.operands)
    return op.name.startswith("linalg.") and dynamic and bool(around & _PARALLEL)


def _check(op: ir.Operation, function: ir.Operation, signature: Function) -> bool:
    """Whether assertions say all of the access."""
    memory = op.operands[_ELEMENTS[op.name]]
    if not ir.MemRefType(memory.type).rank:
        return True
    name = slicecheck.name_of(memory, function, signature)
    if all(parent.name in looprange.ONCE for parent in mlir.parents(op)):
        return _check_here(op, name)
    nest = looprange.around(op)
    return nest is not None and _check_before(op, nest, name)


def _check_here(op: ir.Operation, name: str) -> bool:
    """One element: reading past the end would give a wrong number without a word."""
    memory, complete = op.operands[_ELEMENTS[op.name]], True
    kind = ir.MemRefType(memory.type)
    with ir.InsertionPoint(op), op.location:
        for axis, index in enumerate(_indices(op)):
            static = None if kind.is_dynamic_dim(axis) else int(kind.get_dim_size(axis))
            known = literals.whole(index)
            if known is not None and static is not None and 0 <= known < static:
                continue
            if not looprange.is_at_hand(index):
                complete = False
                continue
            extent = memref.DimOp(memory, value_of(axis)).result if static is None else value_of(static)
            asserts.check(
                _inside(index, extent), f"an index ({{}}) leaves dimension {axis} of {name} ({{}})", index, extent
            )
    return complete


def _check_before(op: ir.Operation, nest: Nest, name: str) -> bool:
    """An element in loops: none of their iterations leaves the buffer."""
    memory, complete = op.operands[_ELEMENTS[op.name]], True
    with ir.InsertionPoint(nest.outermost), op.location:
        for axis, found in enumerate(_ranges(op, nest)):
            bound = slicecheck.extent_before(memory, axis, nest)
            if found is None or bound is None:
                complete = False
            elif not _is_every_index(found, memory, axis):
                extent, place = value_of(bound), "{}"
                inside, numbers = _inside(found.least, extent), [found.least]
                if found.varies:
                    inside = arith.AndIOp(inside, _inside(found.largest, extent)).result
                    place, numbers = "{} to {}", [found.least, found.largest]
                text = f"an index in a loop ({place}) leaves dimension {axis} of {name} ({{}})"
                asserts.check(nest.unless_empty(inside), text, *numbers, extent)
    return complete


def _indices(op: ir.Operation) -> list[ir.Value]:
    """As values at the insertion point."""
    operands = list(op.operands)[_ELEMENTS[op.name] + 1 :]
    if op.name.startswith("memref."):
        return operands
    places = ir.AffineMapAttr(op.attributes["map"]).value
    return [
        affine.AffineApplyOp(ir.AffineMap.get(places.n_dims, places.n_symbols, [each]), operands).result
        for each in places.results
    ]


def _ranges(op: ir.Operation, nest: Nest) -> list[Range | None]:
    operands = list(op.operands)[_ELEMENTS[op.name] + 1 :]
    if op.name.startswith("memref."):
        return [nest.range(index) for index in operands]
    return nest.ranges(ir.AffineMapAttr(op.attributes["map"]).value, operands)


def _is_every_index(found: Range, memory: ir.Value, axis: int) -> bool:
    """Whether the loop is one over the dimension: up to ``memref.dim``."""
    last = mlir.owner(found.largest)
    if literals.whole(found.least) != 0 or not isinstance(last, ir.Operation) or last.name != "arith.subi":
        return False
    return literals.whole(last.operands[1]) == 1 and slicecheck.is_extent(last.operands[0], memory, axis)


def _inside(index: ir.Value, extent: ir.Value) -> ir.Value:
    # As unsigned numbers negative ones are large.
    return arith.CmpIOp(arith.CmpIPredicate.ult, index, extent).result
