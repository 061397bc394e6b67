"""Loops over the same rows become one loop over rows: what one row computes for the next step stays in the cache.

In: blocks with parallel loops. Out: the same with neighbouring loops fused along their common outer loops.

The maximum, the exponentials, the sum and the quotients of a softmax, ``parallel (i) {for j}; parallel (i, j);
parallel (i) {for j}; parallel (i, j)``, become ``parallel (i) {for j; for j; for j; for j}``. The maximum and the sum
of the row are then values, not memory, and the exponentials are written to where the quotients go.

Two loops may be fused when an iteration touches only its own rows of each buffer that one of them writes and the other
uses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views
from aot.lower.cpu import reuse
from aot.lower.general.fusion import hoist, operations
from aot.lower.launches.nests import Loops, move_body
from aot.lower.launches.nests import nest as empty_nest
from aot.lower.source.signature import public_functions, tensor_arguments
from aot.model import Function

_CALLS = frozenset({"func.call", "cf.assert", "memref.alloc", "memref.dealloc"})


def fuse(module: ir.Module, functions: Sequence[Function]) -> None:
    """Fuse loops in all blocks that hold some."""
    by_name = {function.name: function for function in functions}
    for function in public_functions(module):
        tensors = tensor_arguments(function, by_name[mlir.symbol_name(function)])
        for block in dict.fromkeys(op.block for op in mlir.walk(function) if _is_outermost(op)):
            hoist(block, _is_outermost, ("memref.alloc",))
            for fused in _fuse_block(block, tensors):
                reuse.forward(fused)
                reuse.share(fused)


def _is_outermost(op: ir.Operation) -> bool:
    if op.name != "scf.parallel" or len(op.results):
        return False
    return not any(each.name == "scf.parallel" for each in mlir.parents(op))


def _fuse_block(block: ir.Block, tensors: Collection[ir.Value]) -> list[ir.Operation]:
    """The loops made."""
    made: list[ir.Operation] = []
    before: ir.Operation | None = None
    frees: list[ir.Operation] = []
    for op in operations(block):
        if _is_outermost(op):
            depth = _depth(before, op, tensors) if before is not None else 0
            if before is not None and depth:
                made = [each for each in made if each != before]
                before = _merge(before, op, depth)
                made.append(before)
                for free in reversed(frees):
                    free.move_after(before)
            else:
                before, frees = op, []
        elif op.name == "memref.dealloc":
            frees.append(op)
        else:
            before, frees = None, []
    return made


def _depth(first: ir.Operation, second: ir.Operation, tensors: Collection[ir.Value]) -> int:
    """How many outer loops two nests can share."""
    if _CALLS & (mlir.op_names(first) | mlir.op_names(second)):
        return 0
    pairs = list(zip(Loops.of(first).bounds, Loops.of(second).bounds, strict=False))
    common = next((number for number, (one, other) in enumerate(pairs) if one != other), len(pairs))
    return next((depth for depth in range(common, 0, -1) if _separable(first, second, depth, tensors)), 0)


@dataclass(frozen=True)
class _Access:
    """A use of memory, and the place of each shared loop among its indices; None when one is not among them."""

    memory: ir.Value
    writes: bool
    rows: tuple[int, ...] | None


def _separable(first: ir.Operation, second: ir.Operation, depth: int, tensors: Collection[ir.Value]) -> bool:
    others = _accesses(second, depth)
    for one in _accesses(first, depth):
        for other in others:
            if not (one.writes or other.writes):
                continue
            roots = views.root(one.memory), views.root(other.memory)
            if roots[0] != roots[1]:
                if not overlap.separate(*roots, tensors):
                    return False
            elif one.memory != other.memory or one.rows is None or one.rows != other.rows:
                return False
    return True


def _accesses(loop: ir.Operation, depth: int) -> list[_Access]:
    shared = list(loop.regions[0].blocks[0].arguments)[:depth]
    found = []
    for op in mlir.walk(loop):
        if op.name in ("memref.load", "memref.store"):
            writes = op.name == "memref.store"
            memory, *indices = list(op.operands)[writes:]
            rows = tuple(indices.index(each) for each in shared) if all(each in indices for each in shared) else None
            found.append(_Access(memory, writes, rows))
        elif op.name not in views.VIEWS and op.name not in ("memref.dim", "memref.alloca"):
            found += [_Access(value, True, None) for value in op.operands if views.is_memref(value)]
    return found


def _merge(first: ir.Operation, second: ir.Operation, depth: int) -> ir.Operation:
    """One loop of ``depth`` indices, in the place of the second, with both bodies."""
    with ir.InsertionPoint(second), second.location:
        fused = empty_nest(Loops.of(first).bounds[:depth])
    block = fused.regions[0].blocks[0]
    for nest in (first, second):
        end = operations(block)[-1]
        bounds = Loops.of(nest).bounds[depth:]
        indices = list(block.arguments)
        if bounds:
            with ir.InsertionPoint(end), nest.location:
                inner = empty_nest(bounds)
            inside = inner.regions[0].blocks[0]
            indices += list(inside.arguments)
            end = operations(inside)[-1]
        move_body(nest, indices, end)
    return fused
