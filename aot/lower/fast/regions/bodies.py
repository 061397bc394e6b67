"""The body of a linalg operation, repeated for one element or for a vector of neighbouring ones.

In: a body, a value for each of its arguments that is needed, and the loops' indices. Out: the values asked for,
computed at the insertion point. Vectors keep the code small: the back end takes them apart.

>>> evaluate(body, [x, y], indices, [yielded])                                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from mlir import ir
from mlir.dialects import arith, vector

from aot import mlir
from aot.lower.fast.regions import bodyloads, errorfunction, quotients
from aot.lower.gpumodule import devicemath
from aot.lower.hostmodule import rtcalls

Index = Callable[[int], ir.Value]
_IN_F32 = frozenset({"arith.divf", "math.exp"})
_APPROXIMATED = frozenset({"arith.divf", "math.erf", "math.exp", "math.exp2"})
"""Operations in f32 that the hardware has with an error of a few units in the last place, or that come from such."""
_VECTOR_DIALECTS = frozenset({"arith", "math"})


def evaluate(
    body: ir.Block,
    arguments: Sequence[ir.Value | None],
    index: Index,
    wanted: Sequence[ir.Value],
    known: Mapping[ir.Value, bool] = MappingProxyType({}),
) -> list[ir.Value]:
    """Values of the body for one element; operations that they do not need are left out.

    ``known``: conditions of the body that always hold, or never.
    """
    values = _given(body, arguments, known)
    for op in needed(body, wanted, known):
        if op.name == "linalg.index":
            values[op.results[0]] = index(ir.IntegerAttr(op.attributes["dim"]).value)
            continue
        copy = op.clone().operation
        for inner in mlir.walk(copy) if len(copy.regions) else [copy]:
            for number, operand in enumerate(inner.operands):
                if operand in values:
                    inner.operands[number] = values[operand]
        for old, new in zip(op.results, copy.results, strict=True):
            values[old] = new
    return [values.get(value, value) for value in wanted]


def evaluate_vector(
    body: ir.Block,
    arguments: Sequence[ir.Value | None],
    index: Index,
    wanted: Sequence[ir.Value],
    width: int,
    *,
    approximate: bool = False,
    known: Mapping[ir.Value, bool] = MappingProxyType({}),
) -> list[ir.Value]:
    """The same for ``width`` elements; results are vectors.

    What all elements share may be given as one scalar; what depends on such values only is computed once.
    ``approximate``: nothing but narrow floats come out of it in the end.
    """
    values = _given(body, arguments, known)
    for op in needed(body, wanted, known):
        if op.name == "linalg.index":
            values[op.results[0]] = index(ir.IntegerAttr(op.attributes["dim"]).value)
            continue
        operands = [values.get(value, value) for value in op.operands]
        if op.name == "memref.load":
            values[op.results[0]] = bodyloads.neighbours(op, operands, width)
            continue
        if approximate and op.name in _APPROXIMATED and isinstance(op.results[0].type, ir.F32Type):
            values[op.results[0]] = _approximated(op, operands, width)
            continue
        if quotients.by_one_number(op, operands):
            values[op.results[0]] = quotients.divided(operands)
            continue
        if any(isinstance(value.type, ir.VectorType) for value in operands):
            operands = [_spread(value, width) for value in operands]
        values.update(zip(op.results, like(op, operands), strict=True))
    return [_spread(values.get(value, value), width) for value in wanted]


def _given(
    body: ir.Block, arguments: Sequence[ir.Value | None], known: Mapping[ir.Value, bool]
) -> dict[ir.Value, ir.Value]:
    """Values that are there before any operation."""
    values = {own: given for own, given in zip(body.arguments, arguments, strict=True) if given is not None}
    return values | {condition: _truth(holds) for condition, holds in known.items()}


def _spread(value: ir.Value, width: int) -> ir.Value:
    return value if isinstance(value.type, ir.VectorType) else broadcast(value, width)


def is_vectorial(body: ir.Block, wanted: Sequence[ir.Value]) -> bool:
    """Whether the values can be computed on vectors: numbers that the hardware has, and operations on each alone."""
    for op in needed(body, wanted):
        if op.name == "linalg.index":
            continue
        loads = op.name == "memref.load"
        if not loads and (op.name.split(".")[0] not in _VECTOR_DIALECTS or len(op.regions)):
            return False
        if not all(is_hardware(value.type) for value in [*list(op.operands)[loads:], *op.results]):
            return False
    return all(is_hardware(value.type) for value in wanted)


def is_hardware(kind: ir.Type) -> bool:
    """Whether the hardware computes with the type; the others are codes in integers."""
    if isinstance(kind, ir.IntegerType):
        return kind.width in (1, 8, 16, 32, 64)
    return isinstance(kind, ir.IndexType) or (isinstance(kind, ir.FloatType) and kind.width >= 16)


def asked(body: ir.Block) -> list[int]:
    """Loops of which the body wants the index."""
    ops = [op.operation for op in body.operations if op.operation.name == "linalg.index"]
    return [ir.IntegerAttr(op.attributes["dim"]).value for op in ops]


def like(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """The operation on other operands, all scalars or all vectors."""
    shape = next((value.type.shape for value in operands if isinstance(value.type, ir.VectorType)), None)
    results = [value.type if shape is None else ir.VectorType.get(shape, value.type) for value in op.results]
    attributes = {name: op.attributes[name] for name in op.attributes}
    if op.name in _IN_F32 and isinstance(op.results[0].type, ir.F16Type):
        return [_in_f32(op, operands, attributes)]
    made = ir.Operation.create(op.name, results=results, operands=list(operands), attributes=attributes)
    return list(made.results)


def _approximated(op: ir.Operation, operands: Sequence[ir.Value], width: int) -> ir.Value:
    """The operation as the hardware does it; many divisions by one number become products with its inverse.

    Numbers below 2^-128 have none: what is divided by one of them becomes infinite, and 0 NaN.
    """
    is_vector = [isinstance(value.type, ir.VectorType) for value in operands]
    if op.name == "arith.divf" and is_vector == [True, False]:
        one = arith.ConstantOp(operands[1].type, 1.0).result
        inverse = arith.DivFOp(one, operands[1], fastmath=ir.Attribute.parse(devicemath.ROUGH)).result
        return arith.MulFOp(operands[0], broadcast(inverse, width)).result
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["fastmath"] = ir.Attribute.parse(devicemath.ROUGH)
    given = [_spread(value, width) for value in operands] if any(is_vector) else list(operands)
    if op.name == "math.erf":
        return errorfunction.approximated(given[0], attributes["fastmath"])
    return ir.Operation.create(op.name, results=[given[0].type], operands=given, attributes=attributes).results[0]


def _in_f32(op: ir.Operation, operands: Sequence[ir.Value], attributes: dict[str, ir.Attribute]) -> ir.Value:
    """The operation in f32, by the hardware's approximation: its error is far below the rounding to f16."""
    shape = operands[0].type.shape if isinstance(operands[0].type, ir.VectorType) else None
    single = ir.F32Type.get() if shape is None else ir.VectorType.get(shape, ir.F32Type.get())
    attributes = {**attributes, "fastmath": ir.Attribute.parse(devicemath.ROUGH)}
    wide = [arith.ExtFOp(single, value).result for value in operands]
    made = ir.Operation.create(op.name, results=[single], operands=wide, attributes=attributes)
    return arith.TruncFOp(operands[0].type, made.results[0]).result


def broadcast(value: ir.Value, width: int) -> ir.Value:
    """A vector of equal elements; the value itself for a width of 1."""
    return value if width == 1 else vector.BroadcastOp(ir.VectorType.get([width], value.type), value).result


def steps(first: ir.Value, width: int) -> ir.Value:
    """``first``, ``first + 1``, ...: a vector of indices."""
    kind = ir.VectorType.get([width], ir.IndexType.get())
    counts = ir.DenseElementsAttr.get([ir.IntegerAttr.get(ir.IndexType.get(), n) for n in range(width)], kind)
    return arith.AddIOp(broadcast(first, width), arith.ConstantOp(kind, counts).result).result


def pack(values: Sequence[ir.Value]) -> ir.Value:
    """One vector of several elements; a single one as it is."""
    if len(values) == 1:
        return values[0]
    return vector.FromElementsOp(ir.VectorType.get([len(values)], values[0].type), list(values)).result


def unpack(value: ir.Value) -> list[ir.Value]:
    """The elements of a vector; a scalar as it is."""
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [vector.ExtractOp(value, [], [number]).result for number in range(value.type.shape[0])]


def plus(value: ir.Value, number: int) -> ir.Value:
    """An index and a known number."""
    return value if not number else arith.AddIOp(value, rtcalls.index(number)).result


def modulo(value: ir.Value, number: int) -> ir.Value:
    """The rest of an index, also a negative one, by a power of two."""
    return arith.AndIOp(value, rtcalls.index(number - 1)).result


def _truth(holds: bool) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(1), int(holds)).result


def needed(body: ir.Block, wanted: Sequence[ir.Value], known: Collection[ir.Value] = ()) -> list[ir.Operation]:
    """Operations that the values come from, in order; not those of what is known."""
    live = set(wanted)
    found = []
    for op in reversed([each.operation for each in body.operations][:-1]):
        if any(result in live and result not in known for result in op.results):
            found.append(op)
            live.update(value for inner in mlir.walk(op) for value in inner.operands)
    return found[::-1]
