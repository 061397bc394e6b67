"""Loops and sizes as they are written in Python, and what is done with whole nests of parallel loops.

What is made inside a ``with`` is the loop's body.

>>> with loop(extent) as number:                                        # doctest: +SKIP
...     memref.StoreOp(zero, buffer, [number])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref, scf

from aot import mlir
from aot.lower.analysis import literals
from aot.lower.hostmodule import rtcalls


@contextmanager
def loop(end: ir.Value, *, start: ir.Value | None = None, step: int = 1) -> Iterator[ir.Value]:
    """A sequential loop; gives its index."""
    made = scf.ForOp(start if start is not None else rtcalls.index(0), end, rtcalls.index(step))
    with ir.InsertionPoint(made.body):
        yield made.induction_variable
        scf.YieldOp([])


@contextmanager
def parallel(extents: Sequence[ir.Value]) -> Iterator[list[ir.Value]]:
    """A parallel loop over all combinations; gives its indices."""
    zero, one = rtcalls.index(0), rtcalls.index(1)
    made = nest([(zero, extent, one) for extent in extents])
    block = made.regions[0].blocks[0]
    with ir.InsertionPoint(block.operations[0]):
        yield list(block.arguments)


@contextmanager
def when(condition: ir.Value) -> Iterator[ir.InsertionPoint]:
    """A branch; gives the place of the other one."""
    made = scf.IfOp(condition, has_else=True)
    with ir.InsertionPoint(made.else_block):
        end = scf.YieldOp([]).operation
    with ir.InsertionPoint(made.then_block):
        yield ir.InsertionPoint(end)
        scf.YieldOp([])


def nest(bounds: Sequence[tuple[ir.Value, ir.Value, ir.Value]]) -> ir.Operation:
    """An empty parallel loop at the insertion point: lower bound, upper bound and step of each index."""
    lower, upper, step = (list(values) for values in zip(*bounds, strict=True))
    op = ir.Operation.create(
        "scf.parallel",
        operands=[*lower, *upper, *step],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(lower)] * 3 + [0])},
        regions=1,
    )
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(lower))
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.reduce", attributes={}, operands=[])
    return op


def product(values: Sequence[ir.Value]) -> ir.Value:
    """Of at least one number."""
    total = values[0]
    for value in values[1:]:
        total = arith.MulIOp(total, value).result
    return total


def minimum(one: ir.Value, other: ir.Value) -> ir.Value:
    """Of signed numbers."""
    return arith.MinSIOp(one, other).result


def at_least(value: ir.Value, least: int) -> ir.Value:
    """The value, or ``least`` if it is less."""
    return arith.MaxSIOp(value, rtcalls.index(least)).result


@dataclass(frozen=True)
class Loops:
    """Bounds of an ``scf.parallel``."""

    bounds: tuple[tuple[ir.Value, ir.Value, ir.Value], ...]
    """Lower, upper, step of each loop."""

    @staticmethod
    def of(op: ir.Operation) -> Loops:
        rank = len(op.regions[0].blocks[0].arguments)
        operands = list(op.operands)
        return Loops(tuple(zip(operands[:rank], operands[rank : 2 * rank], operands[2 * rank :], strict=True)))


def trips(lower: ir.Value, upper: ir.Value, step: ir.Value) -> ir.Value:
    """Iterations of a loop; 0 when it runs backwards."""
    if literals.whole(lower) == 0 and literals.whole(step) == 1:
        known = literals.whole(upper)
        return rtcalls.index(max(0, known)) if known is not None else at_least(upper, 0)
    span = at_least(arith.SubIOp(upper, lower).result, 0)
    return span if literals.whole(step) == 1 else arith.CeilDivUIOp(span, step).result


def to_loops(nest: ir.Operation) -> None:
    """The nest as ``scf.for`` loops, in any order: that is what parallel means."""
    indices: list[ir.Value] = []
    place = ir.InsertionPoint(nest)
    for lower, upper, step in Loops.of(nest).bounds:
        with place, nest.location:
            loop = scf.ForOp(lower, upper, step)
            with ir.InsertionPoint(loop.body):
                end = scf.YieldOp([]).operation
        indices.append(loop.induction_variable)
        place = ir.InsertionPoint(end)
    move_body(nest, indices, end)


def move_body(nest: ir.Operation, indices: Sequence[ir.Value], end: ir.Operation) -> None:
    """What a nest does goes before ``end``, with these values for its indices; the nest goes."""
    block = nest.regions[0].blocks[0]
    for argument, value in zip(block.arguments, indices, strict=True):
        argument.replace_all_uses_with(value)
    for op in [each.operation for each in block.operations][:-1]:
        op.move_before(end)
    nest.erase()


def scratch_to_stack(nest: ir.Operation, most: int) -> None:
    """Buffers of at most so many bytes that live for one iteration are each thread's own."""
    for alloc in [op for op in mlir.walk(nest) if op.name == "memref.alloc"]:
        kind = ir.MemRefType(alloc.results[0].type)
        if not kind.has_static_shape or _bytes(kind) > most:
            continue
        for use in list(alloc.results[0].uses):
            if use.owner.operation.name == "memref.dealloc":
                use.owner.operation.erase()
        with ir.InsertionPoint(alloc), alloc.location:
            stack = memref.AllocaOp(kind, [], [])
        alloc.results[0].replace_all_uses_with(stack.result)
        alloc.erase()


def _bytes(kind: ir.MemRefType) -> int:
    return math.prod([rtcalls.storage_bytes(kind.element_type), *kind.shape])
