"""Loops cut into strips: so that threads can share them, and so that what they touch stays in the cache.

In: loops made from linalg. Out: the same work in strips.

* ``for %i { parallel (%j) {...} }``, a sum over rows with its accumulators in memory, becomes a parallel loop over
  strips of ``%j``, each with both loops inside.
* a parallel loop that reads along one index and writes along another (a transpose) goes tile by tile.
* ``for %i iter_args(%sum) {...}`` outside all parallel loops becomes a parallel loop over strips that leave partial
  results, and a short loop that combines them. Where strips end depends on the extent only, not on threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, memref, scf

from aot import mlir
from aot.lower.analysis import neutral
from aot.lower.cpu.reduce import Reduction
from aot.lower.general.accumulate import USER_LOOP
from aot.lower.hostmodule import rtcalls
from aot.lower.launches.nests import Loops, move_body, nest, trips

_COLUMNS = 1024
"""Accumulators of one strip: a few kilobytes."""
_ROWS = 4
"""Rows that are added to a strip in one pass."""
_TILE = 32
"""Edge of the tiles of a transpose."""
_PARTIAL = 1 << 14
"""Elements that are reduced to one partial result."""


def columns_outside(module: ir.Module) -> None:
    """Exchange reductions with the parallel loop inside them."""
    loops = [op for op in mlir.walk(module) if op.name == "scf.parallel" and not len(op.results)]
    for op, chain in [(op, _reductions_around(op)) for op in loops]:
        if chain:
            _exchange(op, chain)


def _reductions_around(op: ir.Operation) -> list[ir.Operation]:
    """Loops made from linalg that hold nothing but the next one, outermost first, with bounds from outside."""
    chain: list[ir.Operation] = []
    inner = op
    while (outer := inner.parent.operation).name == "scf.for" and USER_LOOP not in outer.attributes:
        body = [each.operation for each in outer.regions[0].blocks[0].operations]
        if len(outer.results) or [each for each in body if each.name != "scf.yield"] != [inner]:
            break
        chain.insert(0, outer)
        inner = outer
    made = {loop.regions[0].blocks[0] for loop in chain}
    bounds = [value for loop in (*chain, op) for value in loop.operands]
    return [] if any(mlir.owner(value) in made for value in bounds) else chain


def _exchange(op: ir.Operation, chain: Sequence[ir.Operation]) -> None:
    around = chain[0].parent.operation
    bounds = list(Loops.of(op).bounds)
    outer = list(Loops.of(around).bounds) if _is_alone_in_parallel(chain[0], around) else []
    place = around if outer else chain[0]
    lower, upper, step = bounds.pop()
    with ir.InsertionPoint(place), place.location:
        width = arith.MulIOp(step, rtcalls.index(_COLUMNS)).result
        strips = nest([*outer, *bounds, (lower, upper, width)])
    end = list(strips.regions[0].blocks[0].operations)[-1].operation
    ivs = list(strips.regions[0].blocks[0].arguments)
    with ir.InsertionPoint(end), op.location:
        last = arith.MinSIOp(arith.AddIOp(ivs[-1], width).result, upper).result
        chain[0].move_before(end)
        inside = ir.InsertionPoint(op)
        with inside:
            strip = nest([(ivs[-1], last, step)])
    inner_end = list(strip.regions[0].blocks[0].operations)[-1].operation
    move_body(op, [*ivs[len(outer) : -1], strip.regions[0].blocks[0].arguments[0]], inner_end)
    _take_several(chain[-1], strip)
    if outer:
        for argument, value in zip(around.regions[0].blocks[0].arguments, ivs, strict=False):
            argument.replace_all_uses_with(value)
        around.erase()


def _take_several(rows: ir.Operation, strip: ir.Operation) -> None:
    """Several rows in one pass over the strip, one after the other for each element: it is loaded and stored once."""
    lower, upper, step = list(rows.operands)
    with ir.InsertionPoint(rows), rows.location:
        count = trips(lower, upper, step)
        several = arith.MulIOp(arith.DivUIOp(count, rtcalls.index(_ROWS)).result, rtcalls.index(_ROWS)).result
        middle = arith.AddIOp(lower, arith.MulIOp(several, step).result).result
        outer = scf.ForOp(lower, middle, arith.MulIOp(step, rtcalls.index(_ROWS)).result)
        with ir.InsertionPoint(outer.body):
            end = scf.YieldOp([]).operation
    rows.operands[0] = middle
    counters = rows.regions[0].blocks[0].arguments[0], strip.regions[0].blocks[0].arguments[0]
    with ir.InsertionPoint(end), strip.location:
        offsets = [arith.MulIOp(step, rtcalls.index(number)).result for number in range(_ROWS)]
        places = [arith.AddIOp(outer.induction_variable, offset).result for offset in offsets]
        together = nest(list(Loops.of(strip).bounds)).regions[0].blocks[0]
    last = list(together.operations)[-1].operation
    for place in places:
        _clone_body(strip, last, dict(zip(counters, (place, together.arguments[0]), strict=True)))


def _clone_body(strip: ir.Operation, end: ir.Operation, copies: dict[ir.Value, ir.Value]) -> None:
    """The body of a loop again, in front of ``end``, with other values for some."""
    for each in list(strip.regions[0].blocks[0].operations)[:-1]:
        with ir.InsertionPoint(end):
            copy = each.operation.clone().operation
        for op in mlir.walk(copy):
            for number, value in enumerate(op.operands):
                if value in copies:
                    op.operands[number] = copies[value]
        copies.update(zip(each.operation.results, copy.results, strict=True))


def _is_alone_in_parallel(loop: ir.Operation, around: ir.Operation) -> bool:
    if around.name != "scf.parallel" or len(around.results):
        return False
    return [each.operation for each in around.regions[0].blocks[0].operations][:-1] == [loop]


def tiles(module: ir.Module) -> None:
    """Cut parallel loops that touch memory along two different indices into tiles."""
    for op in mlir.walk(module):
        if op.name != "scf.parallel" or len(op.results):
            continue
        axis = _crossed(op)
        if axis is not None:
            _tile(op, axis)


def _crossed(op: ir.Operation) -> int | None:
    """The loop, not the innermost one, along which an array is contiguous while another is along the innermost."""
    block = op.regions[0].blocks[0]
    arguments = list(block.arguments)
    if any(len(each.operation.regions) for each in list(block.operations)[:-1]):
        return None
    last = {list(each.operands)[-1] for each in map(_operation, block.operations) if _is_access(each)}
    if arguments[-1] not in last:
        return None
    return next((number for number, each in enumerate(arguments[:-1]) if each in last), None)


def _operation(op: ir.OpView) -> ir.Operation:
    return op.operation


def _is_access(op: ir.Operation) -> bool:
    first = {"memref.load": 1, "memref.store": 2}.get(op.name)
    return first is not None and len(op.operands) > first + 1


def _tile(op: ir.Operation, axis: int) -> None:
    bounds = list(Loops.of(op).bounds)
    cut = {axis, len(bounds) - 1}
    with ir.InsertionPoint(op), op.location:
        wide = [
            (low, high, arith.MulIOp(step, rtcalls.index(_TILE)).result if number in cut else step)
            for number, (low, high, step) in enumerate(bounds)
        ]
        outer = nest(wide)
    block = outer.regions[0].blocks[0]
    end = block.operations[0].operation
    indices = list(block.arguments)
    for number in sorted(cut):
        with ir.InsertionPoint(end), op.location:
            last = arith.MinSIOp(arith.AddIOp(indices[number], wide[number][2]).result, bounds[number][1]).result
            loop = scf.ForOp(indices[number], last, bounds[number][2])
            with ir.InsertionPoint(loop.body):
                end = scf.YieldOp([]).operation
        indices[number] = loop.induction_variable
    move_body(op, indices, end)


def split_reductions(module: ir.Module, user_loops: set[ir.Operation]) -> None:
    """Cut reductions of whole arrays; loops of the source stay as they are."""
    for op in mlir.walk(module):
        if op.name != "scf.for" or op in user_loops:
            continue
        if any(each.name not in ("func.func", "builtin.module", "scf.if") for each in mlir.parents(op)):
            continue
        reduction = Reduction.of(op)
        if reduction is not None and reduction.is_pure() and reduction.is_wide():
            _split(op, reduction)


def _split(op: ir.Operation, reduction: Reduction) -> None:
    lower, upper, step, init = list(op.operands)
    neutral.admit(reduction.combiner)
    with ir.InsertionPoint(op), op.location:
        zero, one = rtcalls.index(0), rtcalls.index(1)
        width = arith.MulIOp(step, rtcalls.index(_PARTIAL)).result
        count = arith.CeilDivUIOp(trips(lower, upper, step), rtcalls.index(_PARTIAL)).result
        partial = memref.AllocOp(ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], init.type), [count], []).result
        strips = nest([(zero, count, one)])
        combined = scf.ForOp(zero, count, one, [init])
        with ir.InsertionPoint(combined.body):
            value = memref.LoadOp(partial, [combined.induction_variable]).result
            scf.YieldOp([reduction.combine(value, combined.inner_iter_args[0])])
        memref.DeallocOp(partial)
        op.results[0].replace_all_uses_with(combined.results[0])
    block = strips.regions[0].blocks[0]
    end = block.operations[0].operation
    with ir.InsertionPoint(end), op.location:
        first = arith.AddIOp(lower, arith.MulIOp(block.arguments[0], width).result).result
        last = arith.MinSIOp(arith.AddIOp(first, width).result, upper).result
        op.move_before(end)
        op.operands[0], op.operands[1] = first, last
        with ir.InsertionPoint(op):
            op.operands[3] = reduction.neutral()
        memref.StoreOp(op.results[0], partial, [block.arguments[0]])
