"""Results of a row go to memory, as vectors where they can.

In: an evaluator, stores with their places, and chunks. Out: stores at the insertion point.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, memref

from aot.lower.fast.region import FULL, Store
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.accesses import store_vector
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise.chunks import Chunk, Evaluator
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches


def rows(job: Job, code: Evaluator, lane: ir.Value, here: ir.Value | None) -> None:
    """One thread of the row stores what is one for the row."""
    stores = [pair for pair in job.stores if pair[0].product.kind != FULL]
    if not stores:
        return
    values = [code.row_value(store.product) for store, _ in stores]
    first = arith.CmpIOp(arith.CmpIPredicate.eq, lane, rtcalls.index(0)).result
    indices = [code.indices(store.loops, None) for store, _ in stores]
    with branches.guard(_and(first, here)):
        for value, (_, place), at in zip(values, stores, indices, strict=True):
            memref.StoreOp(value, place.memory, at)


def _and(one: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
    if one is None or other is None:
        return one if other is None else other
    return arith.AndIOp(one, other).result


def columns(
    code: Evaluator, stores: Sequence[tuple[Store, Place]], chunks: Sequence[Chunk], here: ir.Value | None
) -> None:
    """Store results of some chunks; all are computed first, since one may overwrite what another reads."""
    values = [[code.values(store.product, chunk) for store, _ in stores] for chunk in chunks]
    for chunk, columns in zip(chunks, values, strict=True):
        with branches.guard(_and(chunk.valid, here)):
            for each, (_, place) in zip(columns, stores, strict=True):
                _store_chunk(code, place, chunk, each)


def _store_chunk(code: Evaluator, place: Place, chunk: Chunk, values: ir.Value) -> None:
    if place.wide and code.width > 1:
        store_vector(values, place.memory, code.address(place, chunk.column))
        return
    for number, value in enumerate(bodies.unpack(values)):
        memref.StoreOp(value, place.memory, code.address(place, bodies.plus(chunk.column, number)))
