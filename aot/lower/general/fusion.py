"""Neighbouring parallel loops over the same iterations become one loop, hence one launch.

In: blocks of host code with parallel loops. Out: the same with fewer of them, in the same order.

``parallel (i, j) { store 0, %c[i, j] }; parallel (i, j) { load %c[i, j]; ...; store %c[i, j] }``  becomes one loop.

Two loops may be fused when each buffer that one of them writes and the other uses is touched in both at the element
of the iteration only. Upstream's pass wants loops side by side, counts stores, and knows less of overlaps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from mlir import ir

from aot import mlir
from aot.lower.analysis import overlap, views
from aot.lower.checks import asserts
from aot.lower.source.signature import public_functions, tensor_arguments
from aot.model import Function

_MOVABLE = views.VIEWS | {"arith", "index", "affine.apply", "affine.min", "affine.max", "memref.dim"}
_MOVABLE |= {"cf.assert", asserts.CARRIER}
"""Dialects and operations that may come earlier; an assertion then fails as early as it can."""
_BETWEEN = frozenset({"memref.alloc", "memref.dealloc"})
_HOST_WORK = _BETWEEN | {"func.call"}
"""In a body: the loop may have to run on the host, and must not take others with it."""


def fuse(module: ir.Module, functions: Sequence[Function]) -> None:
    """Fuse loops in all blocks of host code."""
    by_name = {function.name: function for function in functions}
    for function in public_functions(module):
        tensors = tensor_arguments(function, by_name[mlir.symbol_name(function)])
        for block in dict.fromkeys(op.block for op in mlir.walk(function) if _is_loop(op)):
            hoist(block, _is_loop)
            # A fill belongs to what comes after it, not to the loop before it.
            _fuse_block(block, tensors, fills=True)
            _fuse_block(block, tensors, fills=False)


def _is_loop(op: ir.Operation) -> bool:
    return op.name == "scf.parallel" and not len(op.results)


def hoist(block: ir.Block, is_loop: Callable[[ir.Operation], bool], also: Collection[str] = ()) -> None:
    """Move computations and assertions, and operations of these names, in front of the block's first loop."""
    first: ir.Operation | None = None
    late: set[ir.Value] = set()
    for op in operations(block):
        if first is None:
            first = op if is_loop(op) else None
            continue
        movable = op.name in _MOVABLE or op.name.split(".")[0] in _MOVABLE or op.name in also
        if movable and not any(value in late for value in op.operands):
            op.move_before(first)
        else:
            late.update(op.results)


def _fuse_block(block: ir.Block, tensors: Collection[ir.Value], *, fills: bool) -> None:
    before: ir.Operation | None = None
    frees: list[ir.Operation] = []
    for op in operations(block):
        if _is_loop(op):
            if before is not None and (not fills or _is_fill(before)) and _may_fuse(before, op, tensors):
                _merge(before, op)
                for free in reversed(frees):
                    free.move_after(op)
            else:
                frees = []
            before = op
        elif op.name == "memref.dealloc":
            frees.append(op)
        elif op.name not in _BETWEEN:
            before, frees = None, []


def _is_fill(loop: ir.Operation) -> bool:
    body = operations(loop.regions[0].blocks[0])
    return [op.name for op in body] == ["memref.store", "scf.reduce"]


def _may_fuse(first: ir.Operation, second: ir.Operation, tensors: Collection[ir.Value]) -> bool:
    if list(first.operands) != list(second.operands) or _HOST_WORK & (mlir.op_names(first) | mlir.op_names(second)):
        return False
    for one in overlap.accesses(first):
        for other in overlap.accesses(second):
            if not (one.writes or other.writes):
                continue
            if one.root == other.root:
                if one.memory != other.memory or one.elements is None or one.elements != other.elements:
                    return False
            elif not overlap.separate(one.root, other.root, tensors):
                return False
    return True


def _merge(first: ir.Operation, second: ir.Operation) -> None:
    """Put the first body in front of the second one."""
    source, target = first.regions[0].blocks[0], second.regions[0].blocks[0]
    for mine, theirs in zip(source.arguments, target.arguments, strict=True):
        mine.replace_all_uses_with(theirs)
    start = operations(target)[0]
    for op in operations(source)[:-1]:
        op.move_before(start)
    first.erase()


def operations(block: ir.Block) -> list[ir.Operation]:
    """Operations of a block, in order; they may be moved meanwhile."""
    return [each.operation for each in block.operations]
