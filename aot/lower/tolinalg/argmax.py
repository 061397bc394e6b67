"""Searches for the place of an extreme, as front ends write them, become searches that the fast schedules know.

In: functions in linalg on tensors. Out: the same, with ``max(x)`` and ``select(x > max, place, found)`` of one
reduction as two: the extreme is a reduction like any other, and the place a search, whose running value is selected by
the same comparison. A NaN is the maximum from there on (``arith.maximumf``), and nothing is greater: so the search
leaves out what stands behind a row's first NaN, whose place the first reduction finds, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, tensor

from aot import mlir
from aot.lower.analysis import neutral
from aot.lower.dialects import linalg
from aot.lower.fast.regions import bodies, reducers

_GENERIC, _MAPS = "linalg.generic", "indexing_maps"
_FLOATS = {"arith.maximumf": "ogt", "arith.minimumf": "olt"}
_INTEGERS = {"arith.maxsi": "sgt", "arith.minsi": "slt", "arith.maxui": "ugt", "arith.minui": "ult"}
"""Comparisons by which an element wins."""
_TURNED = {"ogt": "olt", "olt": "ogt", "sgt": "slt", "slt": "sgt", "ugt": "ult", "ult": "ugt"}


@dataclass(frozen=True)
class _Pair:
    """What a body does."""

    extreme: ir.Operation
    compare: ir.Operation
    element: ir.Value
    place: ir.Value
    output: int
    """Which result is the extreme."""
    swapped: bool
    """Whether the running value is the comparison's first operand."""


def lower(module: ir.Module) -> None:
    """Rewrite all of them."""
    for op in mlir.walk(module):
        if op.name == _GENERIC and len(op.results) == 2 and not mlir.inside_kernel(op):
            pair = _pair(op)
            if pair is not None:
                with ir.InsertionPoint(op), op.location:
                    results = _split(op, pair)
                for old, new in zip(op.results, results, strict=True):
                    old.replace_all_uses_with(new)
                op.erase()


def _pair(op: ir.Operation) -> _Pair | None:
    *_, one, other = _maps(op)
    reduced = [number for number, each in enumerate(op.attributes["iterator_types"]) if "reduction" in str(each)]
    if one != other or len(reduced) != 1:
        return None
    body = op.regions[0].blocks[0]
    running = list(body.arguments)[-2:]
    yielded = list(list(body.operations)[-1].operation.operands)
    for output in (0, 1):
        extreme, select = mlir.owner(yielded[output]), mlir.owner(yielded[1 - output])
        if isinstance(extreme, ir.Block) or isinstance(select, ir.Block) or select.name != "arith.select":
            continue
        compare = mlir.owner(select.operands[0])
        wanted = {**_FLOATS, **_INTEGERS}.get(extreme.name)
        if wanted is None or isinstance(compare, ir.Block) or compare.name not in ("arith.cmpf", "arith.cmpi"):
            continue
        value, found = running[output], running[1 - output]
        pair = list(compare.operands)
        if value not in pair or set(pair) != set(extreme.operands):
            continue
        swapped = pair[0] == value
        uses = sum(len(list(each.uses)) for each in running)
        if (
            reducers.predicate(compare) == (_TURNED[wanted] if swapped else wanted)
            and reducers.counted_loop(select.operands[1]) == reduced[0]
            and select.operands[2] == found
            and uses == 3
        ):
            return _Pair(extreme, compare, pair[1] if swapped else pair[0], select.operands[1], output, swapped)
    return None


def _split(op: ir.Operation, pair: _Pair) -> tuple[ir.Value, ir.Value]:
    """The two reductions; their results in the order of the operation's."""
    *inputs, one, other = op.operands
    value, found = (one, other) if pair.output == 0 else (other, one)
    *read, _, _ = _maps(op)
    kept = _maps(op)[-2 + pair.output]
    is_float = pair.extreme.name in _FLOATS
    last = (1 << pair.place.type.width - 1) - 1 if isinstance(pair.place.type, ir.IntegerType) else (1 << 62)
    start = linalg.fill(arith.ConstantOp(pair.place.type, last).result, _empty(found)) if is_float else None

    def extreme(elements: Sequence[ir.Value], old: Sequence[ir.Value]) -> list[ir.Value]:
        element, place = _evaluated(op, pair, elements)
        results = bodies.like(pair.extreme, [element, old[0]])
        if is_float:
            nan = arith.CmpFOp(arith.CmpFPredicate.UNO, element, element).result
            none = arith.ConstantOp(place.type, last).result
            results.append(arith.MinSIOp(arith.SelectOp(nan, place, none).result, old[1]).result)
        return results

    def search(elements: Sequence[ir.Value], old: Sequence[ir.Value]) -> list[ir.Value]:
        element, place = _evaluated(op, pair, elements[: len(inputs)])
        if is_float:
            before = arith.CmpIOp(arith.CmpIPredicate.slt, place, elements[-1]).result
            least = arith.ConstantOp(element.type, neutral.of(pair.extreme.name, element.type)).result
            element = arith.SelectOp(before, element, least).result
        (wins,) = bodies.like(pair.compare, [old[0], element] if pair.swapped else [element, old[0]])
        return [arith.SelectOp(wins, new, each).result for new, each in zip((element, place), old, strict=True)]

    first = _reduction(op, (inputs, read), [value, *([start] if start else [])], kept, extreme)
    nans = ([first[1]], [kept]) if is_float else ([], [])
    second = _reduction(op, ([*inputs, *nans[0]], [*read, *nans[1]]), [_again(value), found], kept, search)
    return (first[0], second[1]) if pair.output == 0 else (second[1], first[0])


def _evaluated(op: ir.Operation, pair: _Pair, elements: Sequence[ir.Value]) -> list[ir.Value]:
    """The element that is compared, and its place."""
    return bodies.evaluate(
        op.regions[0].blocks[0],
        [*elements, None, None],
        lambda loop: linalg.IndexOp(loop).result,
        [pair.element, pair.place],
    )


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in op.attributes[_MAPS]]


def _again(init: ir.Value) -> ir.Value:
    """The same start in memory of its own."""
    made_by = mlir.owner(init)
    if isinstance(made_by, ir.Block) or made_by.name != "linalg.fill":
        return init
    return linalg.fill(made_by.operands[0], _empty(init))


def _empty(like: ir.Value) -> ir.Value:
    kind = ir.RankedTensorType(like.type)
    sizes = [
        tensor.DimOp(like, arith.ConstantOp(ir.IndexType.get(), axis).result).result
        if kind.is_dynamic_dim(axis)
        else extent
        for axis, extent in enumerate(kind.shape)
    ]
    return tensor.EmptyOp(sizes, kind.element_type).result


def _reduction(
    op: ir.Operation,
    read: tuple[Sequence[ir.Value], Sequence[ir.AffineMap]],
    outs: Sequence[ir.Value],
    kept: ir.AffineMap,
    compute: Callable[[Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """A reduction with the loops of another; ``compute`` gets elements and running values."""
    inputs, maps = read
    all_maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in (*maps, *[kept] * len(outs))])
    made = linalg.GenericOp([each.type for each in outs], inputs, outs, all_maps, op.attributes["iterator_types"])
    elements = [ir.RankedTensorType(each.type).element_type for each in (*inputs, *outs)]
    block = made.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        arguments = list(block.arguments)
        linalg.YieldOp(list(compute(arguments[: len(inputs)], arguments[len(inputs) :])))
    return list(made.operation.results)
