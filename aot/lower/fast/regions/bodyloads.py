"""Loads in the body of a linalg operation: gathers.

In: a body. Out: the memory that it reads by itself, and a load for a vector of neighbouring elements.

``%v = memref.load %table[%row, %j]`` with ``%j = linalg.index 1`` reads neighbours for neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import memref, vector

from aot import mlir
from aot.lower.fast.regions import accesses


def has(body: ir.Block) -> bool:
    """Whether the body reads memory by itself."""
    return any(inner.name == "memref.load" for op in body.operations for inner in mlir.walk(op.operation))


def along(body: ir.Block, loop: int) -> Iterator[ir.Value]:
    """Memory that is read along the loop, in vectors where these are aligned."""
    for op in body.operations:
        if op.operation.name == "memref.load" and _runs_along(op.operation, loop):
            yield op.operation.operands[0]


def _runs_along(op: ir.Operation, loop: int) -> bool:
    """Whether the last index, and no other one, is that of the loop."""
    kind = ir.MemRefType(op.operands[0].type)
    places = [_asks_for(value) for value in list(op.operands)[1:]]
    strides, _ = kind.get_strides_and_offset()
    runs = bool(places) and loop >= 0 and places[-1] == loop and loop not in places[:-1]
    return runs and strides[-1] == 1 and _has_whole_bytes(kind.element_type)


def _has_whole_bytes(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IntegerType | ir.FloatType) and kind.width % 8 == 0


def _asks_for(value: ir.Value) -> int:
    made_by = mlir.owner(value)
    if isinstance(made_by, ir.Operation) and made_by.name == "linalg.index":
        return int(ir.IntegerAttr(made_by.attributes["dim"]).value)
    return -1


def neighbours(op: ir.Operation, operands: Sequence[ir.Value], width: int) -> ir.Value:
    """The load on other operands, some of which are vectors; aligned where it runs along the innermost loop."""
    memory, *indices = operands
    apart = [isinstance(index.type, ir.VectorType) for index in indices]
    if not any(apart):
        return memref.LoadOp(memory, indices).result
    first = [_element(index, 0) for index in indices]
    if apart[-1] and not any(apart[:-1]) and _runs_along(op, _asks_for(op.operands[len(indices)])):
        return accesses.load_vector(memory, first, width, ir.MemRefType(memory.type).element_type)
    found = [memref.LoadOp(memory, [_element(index, number) for index in indices]).result for number in range(width)]
    return vector.FromElementsOp(ir.VectorType.get([width], found[0].type), found).result


def _element(index: ir.Value, number: int) -> ir.Value:
    if not isinstance(index.type, ir.VectorType):
        return index
    return vector.ExtractOp(index, [], [number]).result
