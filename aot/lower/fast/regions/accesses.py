"""Vectors in memory: loads and stores of neighbouring elements, aligned.

In: a memref, indices of the first element, a width. Out: the vector, in accesses of at most 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, vector

from aot.lower.hostmodule import rtcalls

VECTOR_BYTES = 16


def load_vector(memory: ir.Value, indices: Sequence[ir.Value], width: int, element: ir.Type) -> ir.Value:
    """An aligned vector, in pieces of at most 16 bytes."""
    pieces = max(1, width * rtcalls.storage_bytes(element) // VECTOR_BYTES)
    size = width // pieces
    kind = ir.VectorType.get([size], element)
    alignment = _alignment(size, element)
    loaded = [
        vector.LoadOp(kind, memory, [*indices[:-1], _behind(indices[-1], size * piece)], alignment=alignment).result
        for piece in range(pieces)
    ]
    if pieces == 1:
        return loaded[0]
    return _pack([each for part in loaded for each in _unpack(part)])


def store_vector(value: ir.Value, memory: ir.Value, indices: Sequence[ir.Value]) -> None:
    """The same for stores."""
    kind = ir.VectorType(value.type)
    width, element = kind.shape[0], kind.element_type
    pieces = max(1, width * rtcalls.storage_bytes(element) // VECTOR_BYTES)
    size = width // pieces
    for piece in range(pieces):
        part = value
        if pieces > 1:
            part = _pack(_unpack(value)[size * piece : size * (piece + 1)])
        place = [*indices[:-1], _behind(indices[-1], size * piece)]
        vector.StoreOp(part, memory, place, alignment=_alignment(size, element))


def _alignment(size: int, element: ir.Type) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size * rtcalls.storage_bytes(element))


def _behind(index: ir.Value, number: int) -> ir.Value:
    return index if not number else arith.AddIOp(index, rtcalls.index(number)).result


def _unpack(value: ir.Value) -> list[ir.Value]:
    return [vector.ExtractOp(value, [], [number]).result for number in range(value.type.shape[0])]


def _pack(values: Sequence[ir.Value]) -> ir.Value:
    return vector.FromElementsOp(ir.VectorType.get([len(values)], values[0].type), list(values)).result
