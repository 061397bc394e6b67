"""Products with a factor that is repeated along part of a loop get a loop for that part: grouped queries of attention.

In: functions in linalg on tensors, after fusing. Out: the same, where such a product reads what is repeated as it is.
Front ends repeat keys and values for all heads of queries that share them, as memory that a kernel would fill first:
expand ``[b, h, n, d]`` to ``[b, h, 1, n, d]``, broadcast to ``[b, h, g, n, d]``, collapse to ``[b, h * g, n, d]``. The
loop over ``h * g`` heads becomes two, here and in all generic operations behind it, up to what is no such operation.

``collapse (broadcast %k) -> %r; generic maps […, (h, m, n, d) -> (h, n, d), …] %q, %r``  becomes
``generic maps […, (h, g, m, n, d) -> (h, n, d), …] (expand %q), %k`` and a collapse of its result
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from aot import mlir
from aot.lower.analysis import opwalk
from aot.lower.bufferization import expandshape
from aot.lower.tolinalg import dividedheads, frontend, splitloops
from aot.lower.tolinalg.splitloops import GENERIC

_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"


@dataclass(frozen=True)
class _Repeated:
    """Dimensions of a tensor."""

    own: frozenset[int] = frozenset()
    """Along which it repeats another one, or is made of products with a factor that is repeated."""
    shared: frozenset[int] = frozenset()
    """Along which it does not."""


def split(module: ir.Module) -> None:
    """Split loops of all products with such factors, and of what is made of them."""
    dividedheads.repeat(module)
    for op in opwalk.named(module, GENERIC):
        if _is_product(op) or _copies(op):
            _read_unexpanded(op)
    pending = seeds = [op for op in opwalk.named(module, _COLLAPSE) if _joins_repeated(op)]
    if seeds:
        frontend.generalize(module, ("reduce",), "reductions")
    while pending:
        collapse, *pending = pending
        for user in _users(collapse):
            pending += splitloops.split(user, collapse)
    if seeds:
        mlir.run_passes(module, ["canonicalize", "cse"], "simplifying")
        for op in opwalk.named(module, GENERIC):
            if _is_product(op):
                _read_unrepeated(op)
        for op in opwalk.named(module, _COLLAPSE):
            if any(user.name == "func.return" for user in _users(op)):
                splitloops.make_as_returned(op)


def _joins_repeated(collapse: ir.Operation) -> bool:
    """Whether it makes one dimension of some along which something is repeated and some along which it is not."""
    found = _repeated(collapse.operands[0])
    joins = any(
        found.own.intersection(group) and found.shared.intersection(group) for group in splitloops.groups_of(collapse)
    )
    made_by = mlir.owner(collapse.operands[0])
    return joins and (not _copies(made_by) or any(map(_is_product, _users(collapse))))


def _repeated(value: ir.Value) -> _Repeated:
    op = mlir.owner(value)
    if isinstance(op, ir.Block) or op.name != GENERIC or len(op.results) != 1 or not splitloops.is_plain(op):
        return _Repeated()
    *sources, target = map(splitloops.loops_of, splitloops.maps_of(op))
    if _copies(op):
        own = {axis for axis, loop in enumerate(target) if loop not in sources[0]}
        return _Repeated(frozenset(own), frozenset(range(len(target))) - own)
    if not _is_product(op):
        return _repeated(op.operands[0]) if sources and sources[0] == target else _Repeated()
    if len(sources) != 2:
        return _Repeated()
    alone = [{axis for axis, loop in enumerate(target) if loop not in source} for source in sources]
    # Each factor is repeated along the other's rows or columns, which are one loop.
    own = {axis for axes in alone if len(axes) > 1 for axis in axes}
    return _Repeated(frozenset(own), frozenset(range(len(target))) - alone[0] - alone[1])


def _read_unexpanded(op: ir.Operation) -> None:
    """Read what has dimensions of extent 1 more without them."""
    maps = splitloops.maps_of(op)
    for number, value in enumerate(op.operands):
        expand = mlir.owner(value)
        if isinstance(expand, ir.Block) or expand.name != _EXPAND:
            continue
        indices, shape = list(maps[number].results), ir.RankedTensorType(value.type).shape
        kept = [
            [axis for axis in group if not (shape[axis] == 1 and isinstance(indices[axis], ir.AffineConstantExpr))]
            for group in splitloops.groups_of(expand)
        ]
        if sum(map(len, kept)) < len(shape) and all(kept):
            axes = [axis for group in kept for axis in group]
            maps[number] = ir.AffineMap.get(maps[number].n_dims, 0, [indices[axis] for axis in axes])
            sizes = [expandshape.read(expand).sizes[axis] for axis in axes]
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = splitloops.expanded(expand.operands[0], [len(group) for group in kept], sizes)
    splitloops.set_maps(op, maps)


def _read_unrepeated(op: ir.Operation) -> None:
    """Let a product read what is repeated for it where it lies."""
    maps = splitloops.maps_of(op)
    for number in range(len(op.operands) - len(op.results)):
        copy = mlir.owner(op.operands[number])
        if isinstance(copy, ir.Block) or not _copies(copy) or not splitloops.is_plain(copy):
            continue
        source, target = map(splitloops.loops_of, splitloops.maps_of(copy))
        if len(source) < len(target):
            indices = [maps[number].results[target.index(loop)] for loop in source]
            maps[number] = ir.AffineMap.get(maps[number].n_dims, 0, indices)
            op.operands[number] = copy.operands[0]
    splitloops.set_maps(op, maps)


def _users(op: ir.Operation) -> list[ir.Operation]:
    """Each once."""
    return list(dict.fromkeys(use.owner.operation for use in op.results[0].uses))


def _is_product(op: ir.Operation) -> bool:
    """Whether it sums up what it makes of several operands."""
    several = op.name == GENERIC and len(op.operands) - len(op.results) > 1
    return several and "reduction" in str(op.attributes["iterator_types"])


def _copies(op: ir.Operation) -> bool:
    """Whether it is a copy, which may repeat its operand, of all of it."""
    if op.name != GENERIC or len(op.operands) != 2:
        return False
    body = op.regions[0].blocks[0]
    ops = list(body.operations)
    return len(ops) == 1 and ops[0].operation.operands[0] == body.arguments[0]
