"""Candidates for regions of rows, by the number of columns, the types and what is known when.

In: facts about a region. Out: tiles in the order in which they are to be tried, each with the rows it is good for.

With static columns one tile is chosen here, and another one for memory that is not aligned; with dynamic columns the
host chooses at the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.lower.fast.rowwise.chunks import EXACT, MASKED, SHIFTED
from aot.lower.fast.rowwise.rowjob import LOOP_VECTORS, MEMORY, REGISTERS, SHARED, Tile, few_rows
from aot.lower.fast.rowwise.slices import LONG
from aot.targets.arch import WARP

_ROW = "row"
_MAX_WIDTH = 8
_VECTOR_BYTES = 16
_SHORT = ((8, 16), (16, 8))
"""Threads for a row of up to twice as many vectors, and rows in a block: with one each, blocks would end too soon."""
_BLOCK = 512
"""Threads that share a row in registers, at most: longer rows do as well in shared memory."""
_WEIGHTED_BLOCK, _WEIGHTED_MOST = 256, 16384
"""The same where vectors of 8 columns meet two weights or more, which take registers, too; columns that as many threads
of a fixed block are for, where shared memory has the row."""
_MOST_THREADS = 1024
"""Of any block."""
_LOOP_THREADS = 512
_FEW_VECTORS = 2
"""Of a turn in loops over shared memory: it answers soon."""
_CLUSTER, _WIDE_CLUSTER, _CLUSTER_THREADS, _FEW_ROWS_THREADS = 8, 16, 256, 512
"""Blocks of a cluster, and threads of each: with small parts of a row, a multiprocessor holds parts of several rows.

Few rows take more threads: nothing else hides how long memory takes."""
_WIDE_BYTES = 4
"""Of a row for each column, from which on clusters are wide whatever the number of rows."""
_WIDE_PART = 100 * 1024
"""Bytes of a row that a block of a wide cluster may have: of more, too few would fit the multiprocessors together."""
_LIGHT_VECTORS, _LIGHT_ROWS, _LIGHT_COLUMNS = 4, 16, 16 * 32768
"""Of a thread in clusters that read a row once; rows and columns that they take: more is left to several launches."""
_LOOP_ELEMENTS = 16
"""Of a thread and turn, in kernels that loop over a row."""


@dataclass(frozen=True)
class Facts:
    """What is known of a region when it is compiled."""

    columns: int | None
    largest: int
    """Bytes of the largest element type that is read or written along rows."""
    row_bytes: int
    """Bytes of shared memory for each column of a row that is kept there; 0 when no pass reads again."""
    reduces: bool
    rows: int | None = None
    slices: bool = False
    """Whether blocks may share a row."""
    light: bool = False
    """Whether a row is read once and has results for the row only."""
    shared_columns: int = 0
    """Sources with an element for each column, the same in all rows: weights."""


@dataclass(frozen=True)
class Candidate:
    """A tile, and when it may run."""

    tile: Tile
    aligned: bool = True
    """Memory must begin at a multiple of a vector, checked at the call."""
    most: int | None = None
    """Columns that it can take; None for any number."""
    least: int = 0
    multiple: bool = False
    """Columns must be a multiple of the width."""
    sliced: bool = False
    """Blocks share a row: for few long rows."""
    shared: bool = False
    """The row must fit into the shared memory of the device."""
    most_rows: int | None = None
    """Rows that it is for."""

    def with_gaps(self) -> Candidate:
        """The same for rows that do not follow each other: where they begin is not a matter of their number."""
        if self.tile.mode != SHIFTED or self.tile.keep == REGISTERS:
            return self
        return replace(self, tile=replace(self.tile, mode=MASKED), multiple=True)


@dataclass(frozen=True)
class Held:
    """Vectors of a thread, where registers hold a row."""

    warp: int
    """At most, where a warp has the row: some lanes of work for each exchange."""
    block: tuple[int, ...]
    """Where a block has it: few, so that many threads load; more where the row needs them."""


def _held(facts: Facts) -> Held:
    """With more than 16 elements that stay, or 24 in a warp, fewer threads fit, and too few loads are in flight.

    What is read once does not stay: there, more for each thread makes up for the exchange.
    """
    wide = width(facts)
    if facts.light:
        return Held(min(8, 32 // wide), (4,))
    return Held(min(4, 24 // wide), (2, min(4, 16 // wide)))


def _is_weighted(facts: Facts) -> bool:
    return width(facts) == _MAX_WIDTH and facts.shared_columns > 1 and facts.row_bytes > 0


def width(facts: Facts) -> int:
    """Columns of a vector."""
    return max(1, min(_MAX_WIDTH, _VECTOR_BYTES // facts.largest))


def candidates(facts: Facts) -> list[Candidate]:
    """What to try, in order; the last one always runs."""
    if facts.rows == 1 and facts.slices and not facts.row_bytes:
        return _one_row(facts)
    found = _static(facts) if facts.columns is not None else _dynamic(facts)
    if not any(each.sliced for each in found):
        found = [*found, *_sliced(facts)]
    return [*found, Candidate(_fallback(facts), aligned=False)]


def offers(facts: Facts) -> dict[str, list[Candidate]]:
    """Candidates of every schedule that the region could have, by its name; the best schedule first."""
    *best, last = candidates(facts)
    loops = _loops(facts, width(facts), [_looped(facts)]) if width(facts) > 1 else []
    found: dict[str, list[Candidate]] = {}
    row = [] if any(each.tile.name == _ROW for each in best) else _in_registers(facts)
    for each in dict.fromkeys([*best, *row, *loops, last]):
        found.setdefault(each.tile.name, []).append(each)
    return found


def _in_registers(facts: Facts) -> list[Candidate]:
    """Static rows of vectors in the registers of the largest block, however many it takes."""
    wide = width(facts)
    if facts.columns is None or wide == 1 or facts.columns < 2 * wide:
        return []
    vectors = -(-facts.columns // (_MOST_THREADS * wide))
    return [Candidate(Tile(_ROW, _MOST_THREADS, 1, vectors, wide, _looped(facts)))]


def _looped(facts: Facts) -> str:
    """What the ends of rows need in kernels that loop."""
    return MASKED if facts.columns is not None and facts.columns % width(facts) == 0 else SHIFTED


def _sliced(facts: Facts) -> list[Candidate]:
    """Few long rows, with and without vectors."""
    if not facts.slices:
        return []
    wide = width(facts)
    threads, vectors = _LOOP_THREADS, _LOOP_ELEMENTS // wide
    mode = SHIFTED if facts.columns is None or facts.columns % wide else MASKED
    found = [Candidate(Tile("slices", threads, 1, vectors, wide, mode, MEMORY), least=LONG, sliced=True)]
    if facts.row_bytes:
        return found
    return [*found, Candidate(Tile("slices", threads, 1, 4, 1, MASKED, MEMORY), False, least=LONG, sliced=True)]


def _one_row(facts: Facts) -> list[Candidate]:
    """Everything is one row: blocks share it, however short it is."""
    wide = width(facts)
    threads, vectors = _LOOP_THREADS, _LOOP_ELEMENTS // wide
    tile = Tile("slices", threads, 1, vectors, wide, SHIFTED, MEMORY)
    narrow = Candidate(Tile("slices", threads, 1, 4, 1, MASKED, MEMORY), aligned=False, sliced=True)
    return [*([Candidate(tile, least=2 * wide, sliced=True)] if wide > 1 else []), narrow]


def _static(facts: Facts) -> list[Candidate]:
    columns, wide = facts.columns or 0, width(facts)
    if columns < 2 * wide or wide == 1:
        return _narrow(columns)
    multiple = columns % wide == 0
    units = -(-columns // wide) if multiple else columns // wide
    most = _WEIGHTED_BLOCK if multiple and _is_weighted(facts) else _BLOCK
    dealt = _dealt(units, _held(facts), 1 if multiple else least_threads(wide), most)
    if dealt is None:
        return _loops(facts, wide, [MASKED if multiple else SHIFTED])
    group, rows = dealt
    vectors = -(-units // group)
    exact = multiple and vectors * group * wide == columns
    mode = EXACT if exact else MASKED if multiple else SHIFTED
    return [Candidate(Tile(_ROW, group, rows, vectors, wide, mode))]


def _dealt(units: int, held: Held, least: int, most: int) -> tuple[int, int] | None:
    """Threads for a row, ``least`` to ``most``, and rows in a block; None when registers cannot hold the vectors."""
    for group, rows in _SHORT:
        if least <= group and units <= 2 * group:
            return group, rows
    if units <= WARP * held.warp:
        return WARP, 4
    for vectors in held.block:
        group = WARP * -(-units // (WARP * vectors))
        if group <= most:
            return group, 1
    return None


def least_threads(wide: int) -> int:
    """For a row that begins anywhere: each column before or behind its whole vectors takes one."""
    return 2 * wide


def _narrow(columns: int) -> list[Candidate]:
    """Short rows, element by element."""
    if not 0 < columns <= 128:
        return []
    group = min(32, max(1, 1 << (columns - 1).bit_length()))
    vectors = -(-columns // group)
    mode = EXACT if columns == group * vectors else MASKED
    return [Candidate(Tile("short-row", group, 128 // group, vectors, 1, mode), aligned=False)]


def _dynamic(facts: Facts) -> list[Candidate]:
    wide = width(facts)
    if wide == 1:
        return []
    held = _held(facts)
    # Each is tried for rows that are too long for those before: their first chunks are whole.
    tiles = [Tile(_ROW, 8, 16, 2, wide, MASKED), Tile(_ROW, 16, 8, 2, wide, MASKED, whole=1)]
    tiles.append(Tile(_ROW, WARP, 4, held.warp, wide, MASKED, whole=1))
    vectors = held.block[-1]
    most = _WEIGHTED_BLOCK if _is_weighted(facts) else _BLOCK
    tiles.append(Tile(_ROW, most, 1, vectors, wide, MASKED, flexible=True, whole=vectors // 2))
    tiles.append(replace(tiles[-1], mode=SHIFTED, whole=0))
    found = [
        Candidate(each, most=each.reach + each.slack, least=max(2 * wide, each.least), multiple=each.mode == MASKED)
        for each in tiles
    ]
    return found + _loops(facts, wide, [MASKED, SHIFTED])


def _loops(facts: Facts, wide: int, modes: list[str]) -> list[Candidate]:
    """Rows that no block holds in registers; the last mode takes them all."""
    memory = replace(in_memory(facts), mode=modes[-1])
    shared = []
    if facts.row_bytes:
        kept = replace(memory, vectors=_FEW_VECTORS, keep=SHARED, flexible=True)
        shared = [_kept(replace(kept, mode=mode), facts) for mode in modes]
        if facts.columns is None and _is_weighted(facts):
            some = replace(kept, group=_WEIGHTED_BLOCK, mode=MASKED, flexible=False)
            shared = [replace(_kept(some, facts), most=_WEIGHTED_MOST), *shared]
    last = Candidate(memory, least=2 * wide, multiple=memory.mode == MASKED)
    return [*_clusters(facts, memory), *_sliced(facts), *shared, last]


def _clusters(facts: Facts, memory: Tile) -> list[Candidate]:
    """Blocks of a cluster share a row."""
    if facts.light and facts.slices:
        tile = replace(memory, name="cluster-row", vectors=_LIGHT_VECTORS, cluster=_WIDE_CLUSTER)
        return [Candidate(tile, least=LONG, most=_LIGHT_COLUMNS, most_rows=_LIGHT_ROWS)]
    if not facts.row_bytes:
        return []
    tile = replace(memory, name="cluster-row", vectors=_FEW_VECTORS, keep=SHARED, flexible=True)
    tile = replace(tile, group=_FEW_ROWS_THREADS, usual=_CLUSTER_THREADS)
    wide = replace(tile, cluster=_WIDE_CLUSTER)
    # Narrow rows are short enough for eight blocks, unless there is nothing else to do.
    rows = None if facts.row_bytes >= _WIDE_BYTES else few_rows(wide)
    most = _WIDE_CLUSTER * _WIDE_PART // facts.row_bytes
    found = replace(_kept(wide, facts), most=most, most_rows=rows)
    return [found, _kept(replace(tile, cluster=_CLUSTER), facts)]


def _kept(tile: Tile, facts: Facts) -> Candidate:
    """With the row in shared memory."""
    tile = tile if facts.columns is None else _fixed(tile, facts.columns, facts.rows)
    return Candidate(tile, least=2 * tile.width, multiple=tile.mode == MASKED, shared=True)


def in_memory(facts: Facts) -> Tile:
    """What takes rows of any length, and few registers: a loop that reads the row for each pass."""
    wide = width(facts)
    return Tile("long-row", _LOOP_THREADS, 1, _LOOP_ELEMENTS // wide, wide, _looped(facts), MEMORY)


def _fixed(tile: Tile, columns: int, rows: int | None) -> Tile:
    """The threads that the host would choose; of a number of rows that it only knows at the call, the usual ones."""
    if not tile.flexible:
        return tile
    few = tile.usual > 0 and rows is not None and rows <= few_rows(tile)
    vectors, group = (tile.vectors, tile.group) if few else (LOOP_VECTORS, tile.usual or tile.group)
    most = WARP * vectors * tile.width * tile.cluster
    return replace(tile, group=max(WARP, min(group, WARP * -(-columns // most))), flexible=False, usual=0)


def _fallback(facts: Facts) -> Tile:
    """Any number of columns, any memory."""
    return Tile("any-row", 256, 1, 2, 1, MASKED, MEMORY)
