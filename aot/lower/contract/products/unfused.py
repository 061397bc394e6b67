"""Contractions whose factors no kernel can read as they are: what makes them becomes an operation of its own.

In: functions after buffers are settled. Out: the same with ``out += f(a, b) * c`` as ``t = f(a, b)`` for all elements,
in memory of its own, and ``out += t * c``, which tensor cores can do. Fusing had saved the memory, but would have ``f``
computed again for each column of the product. So it is with a factor that is rounded first (``f(a)``), and with one
in which summed loops are no neighbours: heads of an attention, whose transposing was fused into the projection.

``out[m, n] += (e[m, k] / l[m]) * v[k, n]``  becomes  ``t[m, k] = e[m, k] / l[m]; out[m, n] += t[m, k] * v[k, n]``
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref

from aot import mlir
from aot.lower.analysis import views
from aot.lower.contract.products.forming import merged
from aot.lower.contract.products.matching import may_overlap, touches
from aot.lower.dialects import linalg
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.extents import Extents, value_of
from aot.lower.hostmodule import rtcalls

_PRODUCTS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_PARALLEL, _REDUCTION = "parallel", "reduction"
_NARROWING = ("arith.truncf", "arith.trunci")
_WIDENING = ("arith.extf", "arith.extsi", "arith.extui")


@dataclass(frozen=True)
class _Side:
    """A factor of the product: the value, and the operands that it is made from."""

    value: ir.Value
    operands: tuple[int, ...]


def rewrite(function: ir.Operation, tensors: Collection[ir.Value]) -> None:
    """Take such contractions of a function apart; ``tensors`` as in ``overlap``."""
    for op in mlir.walk(function):
        if op.name == "linalg.generic" and _results(op) == 1 and len(op.operands) >= 3 and not mlir.inside_kernel(op):
            _take_apart(op, tensors)


def _results(op: ir.Operation) -> int:
    return int(list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[1])


def _take_apart(op: ir.Operation, tensors: Collection[ir.Value]) -> None:
    kinds = [str(each) for each in op.attributes["iterator_types"]]
    if not any("reduction" in each for each in kinds) or not all(
        isinstance(value.type, ir.MemRefType) for value in op.operands
    ):
        return
    body = op.regions[0].blocks[0]
    sides = _sides(body)
    if sides is None or any(each.name == "linalg.index" for each in mlir.walk(op)):
        return
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
    for side in sides:
        used = {loop for number in side.operands for loop in _loops(maps[number]) or (-1,)}
        if -1 in used or len(used) == len(kinds):
            return
    summed = tuple(loop for loop, kind in enumerate(kinds) if "reduction" in kind)
    read = [_is_read(op, side, maps, summed) for side in sides]
    if all(read):
        return
    order = next(
        (_summed(maps[side.operands[0]], summed) for side, fine in zip(sides, read, strict=True) if fine), summed
    )
    with ir.InsertionPoint(op), op.location:
        (one, memory), (other, more) = (
            (_as_it_is(op, side, maps), []) if fine else _made(op, side, maps, order, tensors)
            for side, fine in zip(sides, read, strict=True)
        )
        _product(op, (one, other), maps[-1])
        for each in (*memory, *more):
            memref.DeallocOp(each)
    op.erase()


def _product(op: ir.Operation, factors: tuple[_Factor, _Factor], out: ir.AffineMap) -> None:
    body = op.regions[0].blocks[0]
    total = mlir.owner(list(body.operations)[-1].operation.operands[0])
    kinds = [_REDUCTION if "reduction" in str(each) else _PARALLEL for each in op.attributes["iterator_types"]]
    inputs = [each.memory for each in factors]
    elements = [ir.MemRefType(value.type).element_type for value in (*inputs, op.operands[len(op.operands) - 1])]
    attributes = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
    maps = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in (*(f.map for f in factors), out)])
    made = linalg.GenericOp([], inputs, [op.operands[len(op.operands) - 1]], maps, attributes)
    block = made.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        *elements_, before = block.arguments
        values = [factor.compute(each) for factor, each in zip(factors, elements_, strict=True)]
        product = ir.Operation.create(_PRODUCTS[total.name], [total.results[0].type], values).results[0]
        linalg.YieldOp([ir.Operation.create(total.name, [product.type], [before, product]).results[0]])


def _sides(body: ir.Block) -> tuple[_Side, _Side] | None:
    """The factors of ``out + one * other``, if no operand is part of both."""
    out = list(body.arguments)[-1]
    total = mlir.owner(list(body.operations)[-1].operation.operands[0])
    if isinstance(total, ir.Block) or total.name not in _PRODUCTS:
        return None
    terms = [value for value in total.operands if value != out]
    product = mlir.owner(terms[0]) if len(terms) == 1 else total.block
    if isinstance(product, ir.Block) or product.name != _PRODUCTS[total.name]:
        return None
    one, other = (_Side(value, _operands(value, body)) for value in product.operands)
    last = len(list(body.arguments)) - 1
    apart = not set(one.operands) & set(other.operands) and last not in (*one.operands, *other.operands)
    return (one, other) if apart and one.operands and other.operands else None


def _operands(value: ir.Value, body: ir.Block) -> tuple[int, ...]:
    """Numbers of the body's arguments that a value is made from."""
    found: set[int] = set()
    work = [value]
    while work:
        each = work.pop()
        made_by = mlir.owner(each)
        if not isinstance(made_by, ir.Block):
            work += list(made_by.operands) if made_by.block == body else []
        elif made_by == body:
            found.add(list(body.arguments).index(each))
    return tuple(sorted(found))


def _loops(each: ir.AffineMap) -> tuple[int, ...] | None:
    if not all(isinstance(result, ir.AffineDimExpr) for result in each.results):
        return None
    return tuple(result.position for result in each.results)


@dataclass(frozen=True)
class _Factor:
    """A factor of the new product."""

    memory: ir.Value
    map: ir.AffineMap
    compute: Callable[[ir.Value], ir.Value]
    """The factor that an element stands for."""


def _is_read(op: ir.Operation, side: _Side, maps: Sequence[ir.AffineMap], summed: Sequence[int]) -> bool:
    """Whether kernels read a factor as it lies in memory."""
    if len(side.operands) != 1 or not _is_converted(side.value, op.regions[0].blocks[0]):
        return False
    (number,) = side.operands
    return len(merged(_summed(maps[number], summed), [(op.operands[number], _loops(maps[number]) or ())])) == 1


def _summed(each: ir.AffineMap, summed: Sequence[int]) -> tuple[int, ...]:
    """The summed loops in the order of an operand's indices."""
    return tuple(loop for loop in _loops(each) or () if loop in summed)


def _as_it_is(op: ir.Operation, side: _Side, maps: Sequence[ir.AffineMap]) -> _Factor:
    body, (number,) = op.regions[0].blocks[0], side.operands
    return _Factor(op.operands[number], maps[number], lambda each: _evaluated(body, {number: each}, side.value))


def _made(
    op: ir.Operation,
    side: _Side,
    maps: Sequence[ir.AffineMap],
    order: Sequence[int],
    tensors: Collection[ir.Value],
) -> tuple[_Factor, list[ir.Value]]:
    """The factor in memory that is made for it, with the summed loops innermost in this order; that memory."""
    body = op.regions[0].blocks[0]
    made_by = mlir.owner(side.value)
    widened = not isinstance(made_by, ir.Block) and made_by.name in _WIDENING
    value = made_by.operands[0] if widened else side.value
    loops: list[int] = []
    for number in sorted(side.operands, key=lambda each: -len(maps[each].results)):
        loops += [loop for loop in _loops(maps[number]) or () if loop not in loops]
    if set(order) < set(loops):
        loops = [*(loop for loop in loops if loop not in order), *order]
    inputs = [op.operands[number] for number in side.operands]
    inner = [_renamed(maps[number], loops) for number in side.operands]

    def fill(arguments: Sequence[ir.Value]) -> ir.Value:
        return _evaluated(body, dict(zip(side.operands, arguments, strict=True)), value)

    with _early(op, inputs, tensors):
        memory = _array(op, loops, side.operands, maps, value.type)
        _generic(inputs, memory, [*inner, ir.AffineMap.get_identity(len(loops))], [_PARALLEL] * len(loops), fill)
    outer = ir.AffineMap.get(maps[0].n_dims, 0, [ir.AffineDimExpr.get(loop) for loop in loops])
    return _Factor(memory, outer, lambda each: bodies.like(made_by, [each])[0] if widened else each), [memory]


def _early(op: ir.Operation, inputs: Sequence[ir.Value], tensors: Collection[ir.Value]) -> ir.InsertionPoint:
    """Right behind what may write the inputs: if that is a product, its kernel can make the factor as it stores."""
    before = [each.operation for each in op.block.operations]
    before = before[: before.index(op)]
    captured = {value for inner in mlir.walk(op) for value in inner.operands}
    for number in range(len(before) - 1, -1, -1):
        each = before[number]
        if _may_touch(each, inputs, tensors) or any(result in captured for result in each.results):
            return ir.InsertionPoint(before[number + 1] if number + 1 < len(before) else op)
    return ir.InsertionPoint(op)


def _may_touch(op: ir.Operation, arrays: Sequence[ir.Value], tensors: Collection[ir.Value]) -> bool:
    used = {views.root(value) for inner in mlir.walk(op) for value in inner.operands if views.is_memref(value)}
    return any(touches(op, root) and any(may_overlap(root, each, tensors) for each in arrays) for root in used)


def _is_converted(value: ir.Value, body: ir.Block) -> bool:
    """Whether a factor is an element after conversions only: nothing that would be computed again and again.

    What is rounded first is not: tensor cores take what it is rounded to.
    """
    made_by = mlir.owner(value)
    while not isinstance(made_by, ir.Block):
        if made_by.block != body or len(made_by.operands) != 1 or made_by.name in _NARROWING:
            return False
        made_by = mlir.owner(made_by.operands[0])
    return bool(made_by == body)


def _evaluated(body: ir.Block, given: Mapping[int, ir.Value], value: ir.Value) -> ir.Value:
    arguments = [given.get(number) for number in range(len(list(body.arguments)))]
    return bodies.evaluate(body, arguments, lambda loop: rtcalls.index(loop), [value])[0]


def _renamed(each: ir.AffineMap, loops: Sequence[int]) -> ir.AffineMap:
    """A map of the contraction's loops as one of some of them."""
    results = [ir.AffineDimExpr.get(loops.index(loop)) for loop in _loops(each) or ()]
    return ir.AffineMap.get(len(loops), 0, results)


def _array(
    op: ir.Operation, loops: Sequence[int], operands: Sequence[int], maps: Sequence[ir.AffineMap], element: ir.Type
) -> ir.Value:
    """Memory for an element of each of the loops' points."""
    shape, sizes = [], []
    for loop in loops:
        number = next(each for each in operands if loop in (_loops(maps[each]) or ()))
        axis = (_loops(maps[number]) or ()).index(loop)
        kind = ir.MemRefType(op.operands[number].type)
        shape.append(kind.shape[axis])
        if kind.is_dynamic_dim(axis):
            sizes.append(value_of(Extents().key(op.operands[number], axis)))
    return memref.AllocOp(ir.MemRefType.get(shape, element), sizes, []).result


def _generic(
    inputs: Sequence[ir.Value],
    output: ir.Value,
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    compute: Callable[[Sequence[ir.Value]], ir.Value],
) -> ir.Operation:
    attributes = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    made = linalg.GenericOp(
        [],
        list(inputs),
        [output],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get(attributes),
    )
    elements = [ir.MemRefType(value.type).element_type for value in (*inputs, output)]
    block = made.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([compute(list(block.arguments)[: len(inputs)])])
    return made.operation
