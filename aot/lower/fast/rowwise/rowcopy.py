"""A row is copied to shared memory at once, before the first pass: later ones find it there.

In: a job, a tile that keeps rows in shared memory, and an evaluator. Out: code that copies, and the evaluator's caches.

The copies of all chunks are in flight together (``cp.async``; plain copies on targets that have none). A thread reads
only what it has copied itself, so that nobody waits for others.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, llvm, memref, nvvm

from aot.lower.fast.region import Source
from aot.lower.fast.regions import bodies
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise import exchange
from aot.lower.fast.rowwise.chunks import Chunk, Evaluator
from aot.lower.fast.rowwise.rowchunks import Deal
from aot.lower.fast.rowwise.rowjob import Job, Tile, cache_bytes, part_vectors
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches

_ASYNCHRONOUS = (4, 8, 16)
"""Bytes that one asynchronous copy can have."""
_WHOLE_LINES = 16
"""Bytes of a copy that passes by the first-level cache."""
_PIECE = 16
"""Bytes that a prefetch has a multiple of."""
_GLOBAL, _SHARED = "!llvm.ptr<1>", "!llvm.ptr<3>"


def make(job: Job, tile: Tile, shared: ir.Value) -> dict[Source, ir.Value]:
    """Shared memory for each source that is read again: vectors, by number."""
    found = {}
    offset = rtcalls.index(job.shared(tile))
    for source in job.cached():
        count = part_vectors(job, tile)
        vector = ir.VectorType.get([tile.width], job.places[source].element)
        kind = ir.MemRefType.get([rtcalls.DYNAMIC], vector, memory_space=ir.Attribute.parse(exchange.SHARED))
        found[source] = memref.ViewOp(kind, shared, offset, [count]).result
        offset = arith.AddIOp(offset, cache_bytes(job, source, tile)).result
    return found


def start(deal: Deal, caches: dict[Source, ir.Value]) -> None:
    """Begin to copy the row, which is read from there from now on."""

    def copy(chunks: list[Chunk], running: list[ir.Value]) -> list[ir.Value]:
        for source, memory in caches.items():
            _copy(deal.code, source, memory, chunks[0])
        return running

    deal.code.cached_from = None if deal.first is None else deal.begin
    deal.loop([], 1, copy)
    nvvm.cp_async_commit_group()
    deal.code.caches.update(caches)


def wait() -> None:
    """Until all copies are done."""
    nvvm.cp_async_wait_group(0)


def fetch(deal: Deal, sources: Sequence[Source]) -> None:
    """Have the L2 cache read the block's part of what all rows share, long before the block reads it itself.

    One thread asks for whole pieces of 16 bytes, those around the first and the last column included.
    """
    first = arith.CmpIOp(arith.CmpIPredicate.eq, deal.lane, rtcalls.index(0)).result
    with branches.guard(first):
        for source in sources:
            place = deal.code.places[source]
            ends = []
            for number, more in ((deal.begin, 0), (deal.end, _PIECE - 1)):
                column = arith.MulIOp(number, rtcalls.index(deal.tile.width)).result
                if deal.code.head is not None:
                    column = arith.AddIOp(column, deal.code.head).result
                address = _address(place.memory, column, rtcalls.storage_bytes(place.element))
                ends.append(arith.AndIOp(bodies.plus(address, more), rtcalls.index(-_PIECE)).result)
            size = arith.SubIOp(ends[1], ends[0]).result
            size = arith.IndexCastOp(ir.IntegerType.get_signless(32), size).result
            nvvm.cp_async_bulk_prefetch(_made_pointer(ends[0], _GLOBAL), size)


def _copy(code: Evaluator, source: Source, memory: ir.Value, chunk: Chunk) -> None:
    place = code.places[source]
    size = code.width * rtcalls.storage_bytes(place.element)
    if size in _ASYNCHRONOUS and place.flat:
        _start(code, place, memory, chunk, size)
    else:
        memref.StoreOp(code.from_memory(source, chunk), memory, [code.slot(chunk)])


def _start(code: Evaluator, place: Place, memory: ir.Value, chunk: Chunk, size: int) -> None:
    """Pointers, since upstream's operation on memrefs would be taken apart before kernels are outlined."""
    element = rtcalls.storage_bytes(place.element)
    row = arith.MulIOp(code.row, code.space.columns.value).result
    source = _pointer(place.memory, arith.AddIOp(row, chunk.column).result, element, _GLOBAL)
    first = arith.MulIOp(code.slot(chunk), rtcalls.index(code.width)).result
    to = _pointer(memory, first, element, _SHARED)
    cache = "cg" if size == _WHOLE_LINES else "ca"
    nvvm.cp_async_shared_global(to, source, size, ir.Attribute.parse(f"#nvvm<load_cache_modifier {cache}>"))


def _pointer(memory: ir.Value, number: ir.Value, size: int, kind: str) -> ir.Value:
    return _made_pointer(_address(memory, number, size), kind)


def _address(memory: ir.Value, number: ir.Value, size: int) -> ir.Value:
    base = memref.ExtractAlignedPointerAsIndexOp(memory).result
    return arith.AddIOp(base, arith.MulIOp(number, rtcalls.index(size)).result).result


def _made_pointer(address: ir.Value, kind: str) -> ir.Value:
    word = arith.IndexCastOp(ir.IntegerType.get_signless(64), address).result
    return llvm.IntToPtrOp(ir.Type.parse(kind), word).res
