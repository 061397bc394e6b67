"""The kernel of a permutation that changes the innermost dimension: tiles through shared memory.

In: a region of one operation that reads permuted operands, and its places. Out: a ``gpu.launch``.

A block reads a tile along the operands' innermost loop and writes it along the result's. With vectors both sides are
16-byte accesses; shared memory holds 32-bit words, two rows of 16-bit elements in one word or four of 8 bits, and
groups of four words are permuted by their row so that neither side meets a bank twice. Without, elements go through a
padded tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mlir import ir
from mlir.dialects import arith, gpu

from aot.lower.fast import pointwise
from aot.lower.fast.columnwise.transposecode import Tile, TransposeCode, Turned
from aot.lower.fast.region import FULL, PART, Region, Source
from aot.lower.fast.regions import bodies, places
from aot.lower.fast.regions.division import Divisor
from aot.lower.fast.regions.places import Place
from aot.lower.fast.rowwise.rowjob import Job
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import branches, tiling

_WIDE = {1: Tile(128, 256, 16), 2: Tile(128, 512, 8), 4: Tile(64, 256, 4)}
"""By bytes of the elements."""
_SMALL = {1: Tile(64, 64, 16), 2: Tile(64, 256, 8), 4: Tile(32, 128, 4)}
"""The same, for arrays of few tiles: more blocks have less each."""
_ENOUGH = 200
"""Large tiles that there must be: more than multiprocessors of most devices."""
_NARROW = Tile(32, 256, 1)
_RESIDENT, _LARGE = 1024, 256
"""Threads of a multiprocessor, with the registers for all loads of a tile at once; larger blocks would be too few."""
_SHARED = 48 * 1024
_THIN = (16, 5)
"""Fewer elements along the result's innermost loop, or along the operands', would leave most of a tile empty."""
_FLAT = 4
"""Elements of a vector then: thin extents are rarely a multiple of more, and vectors that cross them take longer."""


def matches(region: Region) -> bool:
    """Whether the region is one operation whose permuted operands all run along one other loop of the result."""
    if region.reductions or len(region.members) != 1 or len(region.stores) != 1:
        return False
    last = _rank(region) - 1
    inner = {source.loops[-1] for source in _moved(region)}
    body = region.members[0].operation.body
    asks = any(op.operation.name == "linalg.index" for op in body.operations)
    return len(inner) == 1 and inner.pop() >= 0 and not asks and region.stores[0].loops == tuple(range(last + 1))


def _rank(region: Region) -> int:
    return len(region.rows) + len(region.columns)


def _moved(region: Region) -> list[Source]:
    """Operands that run along another loop than the result."""
    last = _rank(region) - 1
    return [each for each in region.sources() if each.kind == PART and last in each.loops and each.loops[-1] != last]


def widest(job: Job) -> int:
    """Elements of a vector, at most."""
    return _tile(_turned(job)).width


def launch(job: Job, width: int) -> None:
    """Emit the kernels at the insertion point: tiles, or element by element where these would be thin."""
    turned = _turned(job)
    thin = _is_thin(job, turned)
    flat = partial(pointwise.launch, job, _flat_width(turned, width))
    branches.either(thin, flat, partial(_tiles, job, turned, width))


def _is_thin(job: Job, turned: Turned) -> ir.Value | bool:
    extents = (*job.space.row_loops, *job.space.column_loops)
    found: list[ir.Value] = []
    for extent, least in zip((extents[-1], extents[turned.inner]), _THIN, strict=True):
        if extent.static is None:
            found.append(arith.CmpIOp(arith.CmpIPredicate.ult, extent.value, rtcalls.index(least)).result)
        elif extent.static < least:
            return True
    return arith.OrIOp(*found).result if len(found) > 1 else found[0] if found else False


def _flat_width(turned: Turned, most: int) -> int:
    places_ = (turned.result, *(place for place in turned.others.values() if place.wide))
    return min(_FLAT, most, places.VECTOR_BYTES // max(rtcalls.storage_bytes(place.element) for place in places_))


def _tiles(job: Job, turned: Turned, width: int) -> None:
    """With vectors where they are aligned, unless the width is less."""
    tile = _tile(turned)
    if tile.width == 1 or width < tile.width:
        _kernel(turned, _NARROW, job.region.number)
        return
    number = job.region.number
    large_or_small = partial(_large_or_small, turned, tile, number)
    branches.either(_fits(turned, tile), large_or_small, partial(_kernel, turned, _NARROW, number))


def _large_or_small(turned: Turned, tile: Tile, number: int) -> None:
    """Tiles that are enough for the device."""
    few = arith.CmpIOp(arith.CmpIPredicate.ult, _product(_counts(turned, tile)), rtcalls.index(_ENOUGH)).result
    small = _SMALL[places.VECTOR_BYTES // tile.width]
    branches.either(few, partial(_kernel, turned, small, number), partial(_kernel, turned, tile, number))


def _turned(job: Job) -> Turned:
    """Places with an index for each loop, not as rows and columns."""
    moved = _moved(job.region)
    found = {source: _by_loops(source.value, source.kind, source.loops, job) for source in job.region.sources()}
    store = job.stores[0][0]
    extents = tuple(each.value for each in (*job.space.row_loops, *job.space.column_loops))
    return Turned(
        job.region.members[0],
        {source: found[source] for source in moved},
        {source: place for source, place in found.items() if source not in moved},
        _by_loops(store.memory, FULL, store.loops, job),
        extents,
    )


def _by_loops(memory: ir.Value, kind: str, loops: tuple[int, ...], job: Job) -> Place:
    if not isinstance(memory.type, ir.MemRefType):
        return Place(memory, kind, loops, flat=False, wide=False)
    element = ir.MemRefType(memory.type).element_type
    wide = places.is_wide(element) and places.has_unit_stride(memory) and bool(loops) and loops[-1] >= 0
    along = bool(loops) and loops[-1] in (_rank(job.region) - 1, _moved(job.region)[0].loops[-1])
    return Place(memory, kind, loops, flat=False, wide=wide and along, gaps=not places.is_plain(memory))


def _tile(turned: Turned) -> Tile:
    """By the size of what is moved."""
    sizes = {rtcalls.storage_bytes(place.element) for place in turned.moved.values()}
    tile = _WIDE.get(sizes.pop()) if len(sizes) == 1 else None
    # Shared memory holds vectors of numbers that the hardware has.
    wide = all(place.wide and bodies.is_hardware(place.element) for place in (*turned.moved.values(), turned.result))
    if tile is None or not wide or turned.shared_bytes(tile) > _SHARED:
        return _NARROW
    return tile


def _fits(turned: Turned, tile: Tile) -> ir.Value:
    """Whether both innermost extents are whole vectors, and memory is aligned."""
    both = arith.OrIOp(turned.extents[turned.inner], turned.extents[-1]).result
    rest = arith.AndIOp(both, rtcalls.index(tile.width - 1)).result
    whole = arith.CmpIOp(arith.CmpIPredicate.eq, rest, rtcalls.index(0)).result
    everything = [*turned.moved.values(), *turned.others.values(), turned.result]
    return arith.AndIOp(whole, places.aligned([each for each in everything if each.wide])).result


def _counts(turned: Turned, tile: Tile) -> list[ir.Value]:
    """Tiles along ``n`` and ``m``, and extents of the other loops."""
    extents, inner, size = turned.extents, turned.inner, rtcalls.index(tile.size)
    counts = [arith.CeilDivUIOp(extents[loop], size).result for loop in (inner, len(extents) - 1)]
    return counts + [extent for loop, extent in enumerate(extents) if loop not in (inner, len(extents) - 1)]


def _kernel(turned: Turned, tile: Tile, number: int) -> None:
    one, counts = rtcalls.index(1), _counts(turned, tile)
    blocks = _product(counts)
    divisors = [Divisor.of_blocks(count, blocks) for count in counts[:-1]]
    shared = arith.ConstantOp(ir.IntegerType.get_signless(32), turned.shared_bytes(tile)).result
    op = gpu.LaunchOp(
        (blocks, one, one), (rtcalls.index(tile.threads), one, one), dynamic_shared_memory_size=shared
    ).operation
    tiling.mark(op, "transposes", number, "transpose", vars(tile))
    if tile.width > 1 and tile.threads <= _LARGE:
        tiling.give_registers(op, _RESIDENT // tile.threads)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        end = gpu.TerminatorOp()
    with ir.InsertionPoint(end):
        TransposeCode(turned, tile, body, divisors).emit()


def _product(counts: Sequence[ir.Value]) -> ir.Value:
    total = counts[0]
    for count in counts[1:]:
        total = arith.MulIOp(total, count).result
    return total
