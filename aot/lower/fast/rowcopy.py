"""A row is copied to shared memory at once, before the first pass: later ones find it there.

In: a job, a tile that keeps rows in shared memory, and an evaluator. Out: code that copies, and the evaluator's caches.

The copies of all chunks are in flight together (``cp.async``; plain copies on targets that have none). A thread reads
only what it has copied itself, so that nobody waits for others.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, llvm, memref, nvvm, scf

from aot.lower import rtcalls
from aot.lower.fast import exchange
from aot.lower.fast.chunks import Chunk, Evaluator, guard
from aot.lower.fast.places import Place
from aot.lower.fast.region import Source
from aot.lower.fast.rowjob import Job, Tile, cache_bytes

_ASYNCHRONOUS = (4, 8, 16)
"""Bytes that one asynchronous copy can have."""
_WHOLE_LINES = 16
"""Bytes of a copy that passes by the first-level cache."""
_GLOBAL, _SHARED = "!llvm.ptr<1>", "!llvm.ptr<3>"


def make(job: Job, tile: Tile, shared: ir.Value) -> dict[Source, ir.Value]:
    """Shared memory for each source that is read again: vectors, by position."""
    found = {}
    offset = rtcalls.index(job.scratch() if tile.group > exchange.WARP else 0)
    for source in job.cached():
        columns = arith.AddIOp(job.space.columns.value, rtcalls.index(2 * tile.width)).result
        count = arith.DivUIOp(columns, rtcalls.index(tile.width)).result
        vector = ir.VectorType.get([tile.width], job.places[source].element)
        kind = ir.MemRefType.get([rtcalls.DYNAMIC], vector, memory_space=ir.Attribute.parse(exchange.SHARED))
        found[source] = memref.ViewOp(kind, shared, offset, [count]).result
        offset = arith.AddIOp(offset, cache_bytes(job, source, tile)).result
    return found


def fill(
    code: Evaluator, caches: dict[Source, ir.Value], each_chunk: Callable[[Callable[[Chunk], None]], None]
) -> None:
    """Copy the row, and read from there from now on."""

    def copy(chunk: Chunk) -> None:
        with guard(chunk.valid):
            for source, memory in caches.items():
                _copy(code, source, memory, chunk)

    each_chunk(copy)
    nvvm.cp_async_commit_group()
    nvvm.cp_async_wait_group(0)
    code.caches.update(caches)


def _copy(code: Evaluator, source: Source, memory: ir.Value, chunk: Chunk) -> None:
    place = code.places[source]
    size = code.width * rtcalls.storage_bytes(place.element)
    if size not in _ASYNCHRONOUS or not place.flat:
        _store(code, memory, chunk, code.from_memory(source, chunk))
        return
    if chunk.inside is None:
        _start(code, place, memory, chunk, size)
        return
    choice = scf.IfOp(chunk.inside, has_else=True)
    with ir.InsertionPoint(choice.then_block):
        _start(code, place, memory, chunk, size)
        scf.YieldOp([])
    with ir.InsertionPoint(choice.else_block):
        end = scf.YieldOp([])
    with ir.InsertionPoint(end):
        _store(code, memory, chunk, code.clamped(place, chunk))


def _store(code: Evaluator, memory: ir.Value, chunk: Chunk, value: ir.Value) -> None:
    memref.StoreOp(value, memory, [arith.DivUIOp(chunk.position, rtcalls.index(code.width)).result])


def _start(code: Evaluator, place: Place, memory: ir.Value, chunk: Chunk, size: int) -> None:
    """Pointers, since upstream's operation on memrefs would be taken apart before kernels are outlined."""
    element = rtcalls.storage_bytes(place.element)
    row = arith.MulIOp(code.row, code.space.columns.value).result
    source = _pointer(place.memory, arith.AddIOp(row, chunk.column).result, element, _GLOBAL)
    to = _pointer(memory, chunk.position, element, _SHARED)
    cache = "cg" if size == _WHOLE_LINES else "ca"
    nvvm.cp_async_shared_global(to, source, size, ir.Attribute.parse(f"#nvvm<load_cache_modifier {cache}>"))


def _pointer(memory: ir.Value, number: ir.Value, size: int, kind: str) -> ir.Value:
    base = memref.ExtractAlignedPointerAsIndexOp(memory).result
    address = arith.AddIOp(base, arith.MulIOp(number, rtcalls.index(size)).result).result
    word = arith.IndexCastOp(ir.IntegerType.get_signless(64), address).result
    return llvm.IntToPtrOp(ir.Type.parse(kind), word).res
