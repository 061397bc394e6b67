"""Reductions of gathered elements: what is gathered becomes an operation of its own.

In: functions after buffers are settled. Out: the same with ``sum(table[i, ids[i]])`` as ``t[i] = table[i, ids[i]]``,
in memory of its own, and ``sum(t[i])``. Fusing had saved the memory, but schedules of reductions read elements as they
lie: all of it would go to the general one, a thread for each result. Where neighbouring results are neighbours in
memory, as in sums of gathered rows, there are threads enough, and it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.dialects import linalg
from aot.lower.fast.regions import bodies, bodyloads, operations, reducers
from aot.lower.fast.regions.extents import Extents, Key, value_of
from aot.lower.fast.regions.operations import Operation
from aot.lower.fast.regions.reducers import Reducer

_PARALLEL_LOOPS = ("scf.parallel", "scf.forall", "affine.parallel")


def rewrite(function: ir.Operation) -> None:
    """Take such reductions of a function apart."""
    for op in mlir.walk(function):
        if op.name != "linalg.generic" or mlir.inside_kernel(op) or not bodyloads.has(op.regions[0].blocks[0]):
            continue
        read = operations.read(op, Extents())
        if (
            isinstance(read, str)
            or not read.reduces
            or not read.reduces[-1]
            or any(e.name in _PARALLEL_LOOPS for e in mlir.parents(op))
        ):
            continue
        reducer = reducers.read(read)
        if not isinstance(reducer, str) and reducer.search is None:
            _take_apart(read, reducer)


def _take_apart(read: Operation, reducer: Reducer) -> None:
    op, body = read.op, read.body
    outs = [op.operands[number] for number in read.outputs]
    inputs = [each for number, each in enumerate(op.operands) if number not in read.outputs]
    maps = list(op.attributes["indexing_maps"])
    whole = ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(read.extents)))

    def elements(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        given = [*arguments[: len(inputs)], *[None] * len(outs)]
        return bodies.evaluate(body, given, lambda loop: linalg.IndexOp(loop).result, reducer.elements)

    def results(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        return reducer.combine(arguments[len(outs) :], arguments[: len(outs)])

    parallel = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * len(read.extents))
    with ir.InsertionPoint(op), op.location:
        made = [_array(read.extents, each.type) for each in reducer.elements]
        _generic((inputs, made), [*maps[: len(inputs)], *[whole] * len(made)], parallel, elements)
        _generic((made, outs), [*[whole] * len(made), *maps[len(inputs) :]], op.attributes["iterator_types"], results)
        for each in made:
            memref.DeallocOp(each)
    op.erase()


def _array(extents: Sequence[Key], element: ir.Type) -> ir.Value:
    """Memory for an element of each point of the loops."""
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [each if isinstance(each, int) else dynamic for each in extents]
    sizes = [value_of(each) for each in extents if not isinstance(each, int)]
    return memref.AllocOp(ir.MemRefType.get(shape, element), sizes, []).result


def _generic(
    operands: tuple[Sequence[ir.Value], Sequence[ir.Value]],
    maps: Sequence[ir.Attribute],
    kinds: ir.Attribute,
    compute: Callable[[Sequence[ir.Value]], Sequence[ir.Value]],
) -> None:
    inputs, outs = operands
    made = linalg.GenericOp([], list(inputs), list(outs), ir.ArrayAttr.get(list(maps)), kinds)
    block = made.regions[0].blocks.append(*(ir.MemRefType(each.type).element_type for each in (*inputs, *outs)))
    with ir.InsertionPoint(block):
        linalg.YieldOp(list(compute(list(block.arguments))))
