"""What the kernels of a region of rows have in common: the tile, the passes over a row, shared memory.

In: a region and its places. Out: a Job, and what each pass of a kernel needs.

A softmax has three passes: its maximum, its sum, and the results; each reads the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from aot.lower.fast.region import FULL, Node, Region, Source, Store
from aot.lower.fast.regions.places import Place, Space
from aot.lower.fast.rowwise import exchange
from aot.lower.fast.rowwise.chunks import SHIFTED
from aot.lower.fast.rowwise.clusterexchange import BARRIER_BYTES
from aot.lower.gpumodule import imageneeds
from aot.lower.hostmodule import rtcalls
from aot.lower.launches import tiling
from aot.targets.arch import WARP

_CLUSTERS, _WIDE_CLUSTERS = "sm_90", "sm_90a"
"""Architectures that have clusters of up to 8 blocks, and of 16."""
_PORTABLE = 8
REGISTERS, SHARED, MEMORY = "registers", "shared", "memory"
LOOP_VECTORS = 6
"""Of a thread in loops over a row, about: with fewer threads, more rows are in flight instead."""
_MULTIPROCESSORS = 128
_FEW_LOADS, _RESIDENT_THREADS = 4, 1024
"""Loads of a thread that take no more registers than ptxas gives by itself; threads of a multiprocessor with more."""
_ROOM = 16
"""Bytes that cached rows begin at multiples of."""


@dataclass(frozen=True)
class Tile:
    """How a kernel divides the work."""

    name: str
    group: int
    rows: int
    vectors: int
    width: int
    mode: str
    keep: str = REGISTERS
    flexible: bool = False
    """The host launches as many threads as the row needs, whole warps of them, at most ``group``."""
    cluster: int = 1
    """Blocks that share a row, each with its part of it."""
    usual: int = 0
    """``flexible``: threads at most where there are rows for all multiprocessors; 0: ``group``."""
    whole: int = 0
    """Chunks of a thread that are inside every row of ``least`` columns or more; static rows tell by themselves."""

    @property
    def threads(self) -> int:
        return self.group * self.rows

    @property
    def reach(self) -> int:
        """Columns that all chunks of one pass of straight code hold."""
        return self.group * self.vectors * self.width

    @property
    def least(self) -> int:
        """Columns that the chunks called whole need; where threads follow the row, half of those that it takes."""
        if self.flexible:
            return 2 * self.whole * WARP * self.width
        return self.whole * self.group * self.width

    @property
    def exchanges(self) -> int:
        """Of a result, those through shared memory."""
        return (self.group > WARP) + (self.cluster > 1)

    @property
    def need(self) -> str:
        """The architecture whose images can hold the kernel; empty: all."""
        if self.cluster == 1:
            return ""
        return _CLUSTERS if self.cluster <= _PORTABLE else _WIDE_CLUSTERS

    @property
    def slack(self) -> int:
        """Columns that a row may have besides whole vectors."""
        return self.width - 1 if self.mode == SHIFTED else 0

    def mark(self, launch: ir.Operation, region: Region) -> None:
        """Say on a launch that it has this tile."""
        tiling.mark(launch, region.kind, region.number, self.name, self.sizes(), self.remarks())
        if self.cluster > 1:
            launch.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([self.cluster, 1, 1])
            imageneeds.mark(launch, self.need)
        if self.flexible:
            launch.attributes["nvvm.maxntid"] = ir.DenseI32ArrayAttr.get([self.group])
        if self.keep == MEMORY:
            tiling.give_registers(launch)
        elif self.vectors > _FEW_LOADS:
            tiling.give_registers(launch, _RESIDENT_THREADS // self.threads)

    def sizes(self) -> dict[str, int]:
        """As reports and ``aot.toml`` name them."""
        return {"threads": self.group, "rows": self.rows, "vectors": self.vectors, "width": self.width}

    def remarks(self) -> tuple[str, ...]:
        """What else reports tell."""
        return (self.mode, self.keep, *([tiling.AS_NEEDED] if self.flexible else []))


@dataclass(frozen=True)
class Job:
    """What all kernels of a region have in common."""

    region: Region
    space: Space
    places: dict[Source, Place]
    stores: tuple[tuple[Store, Place], ...]

    def cached(self) -> list[Source]:
        """Sources that more than one pass reads, and that vectors can hold."""
        counts: dict[Source, int] = {}
        for nodes in passes(self.region):
            for source in needed(nodes):
                counts[source] = counts.get(source, 0) + 1
        return [
            source for source, count in counts.items() if count > 1 and source.kind == FULL and self.places[source].wide
        ]

    def scratch(self, exchanges: int = 1) -> int:
        """Bytes of shared memory for as many exchanges of each result; searches exchange the extreme, then a pair."""
        return (self._results + self._searches) * exchanges * exchange.SLOT_BYTES

    def barriers(self, tile: Tile) -> int:
        """Of a tile whose blocks exchange: one for each time that they do."""
        return len(self.region.reductions) + self._searches if tile.cluster > 1 else 0

    def shared(self, tile: Tile) -> int:
        """Bytes of shared memory that a tile takes for its exchanges."""
        barriers = self.barriers(tile) * BARRIER_BYTES
        return self.scratch(tile.exchanges) + -(-barriers // exchange.SLOT_BYTES) * exchange.SLOT_BYTES

    @property
    def _results(self) -> int:
        return sum(len(member.operation.outputs) for member in self.region.reductions)

    @property
    def _searches(self) -> int:
        reducers = [member.reducer for member in self.region.reductions]
        return sum(reducer is not None and reducer.search is not None for reducer in reducers)

    def searches(self) -> bool:
        """Whether a reduction asks where something is."""
        return self._searches > 0


def threads(job: Job, tile: Tile) -> ir.Value:
    """Threads of a block, on the host."""
    if not tile.flexible:
        return rtcalls.index(tile.threads)
    if tile.keep == REGISTERS:
        # What a row has besides whole vectors takes no thread more.
        return arith.MinUIOp(_busy(job, tile, tile.vectors), rtcalls.index(tile.group)).result
    count = arith.MinUIOp(_busy(job, tile, LOOP_VECTORS), rtcalls.index(tile.usual or tile.group)).result
    if not tile.usual:
        return count
    alone = arith.MinUIOp(_busy(job, tile, tile.vectors), rtcalls.index(tile.group)).result
    few = arith.CmpIOp(arith.CmpIPredicate.ule, job.space.rows.value, rtcalls.index(few_rows(tile))).result
    return arith.SelectOp(few, alone, count).result


def few_rows(tile: Tile) -> int:
    """Rows whose blocks have a multiprocessor each, on most devices."""
    return _MULTIPROCESSORS // tile.cluster


def _busy(job: Job, tile: Tile, vectors: int) -> ir.Value:
    """Whole warps, at least one, whose threads have as many vectors of a block's part of the row."""
    warp = WARP * vectors * tile.width * tile.cluster
    columns = arith.AddIOp(job.space.columns.value, rtcalls.index(warp - 1)).result
    count = arith.MulIOp(arith.DivUIOp(columns, rtcalls.index(warp)).result, rtcalls.index(WARP)).result
    return arith.MaxUIOp(count, rtcalls.index(WARP)).result


def shared_bytes(job: Job, tile: Tile) -> ir.Value | None:
    """Bytes of dynamic shared memory; None for none."""
    scratch = job.shared(tile)
    if tile.keep != SHARED:
        return _word(rtcalls.index(scratch)) if scratch else None
    total = rtcalls.index(scratch)
    for source in job.cached():
        total = arith.AddIOp(total, cache_bytes(job, source, tile)).result
    return _word(total)


def _word(value: ir.Value) -> ir.Value:
    return arith.IndexCastOp(ir.IntegerType.get_signless(32), value).result


def part_vectors(job: Job, tile: Tile) -> ir.Value:
    """Whole vectors of a row that one block has, at most."""
    extra = arith.AddIOp(job.space.columns.value, rtcalls.index(tile.width * tile.cluster - 1)).result
    return arith.DivUIOp(extra, rtcalls.index(tile.width * tile.cluster)).result


def cache_bytes(job: Job, source: Source, tile: Tile) -> ir.Value:
    """Of the vectors of a source that a block keeps."""
    size = tile.width * rtcalls.storage_bytes(job.places[source].element)
    data = arith.MulIOp(part_vectors(job, tile), rtcalls.index(size)).result
    blocks = arith.DivUIOp(arith.AddIOp(data, rtcalls.index(_ROOM - 1)).result, rtcalls.index(_ROOM)).result
    return arith.MulIOp(blocks, rtcalls.index(_ROOM)).result


def passes(region: Region) -> list[list[Node]]:
    """What each pass over the columns computes: the inputs of one level's reductions, and at last the stores."""
    levels = sorted({member.level for member in region.reductions})
    found: list[list[Node]] = []
    for each in levels:
        members = [member for member in region.reductions if member.level == each]
        found.append([node for member in members for node in member.nodes if node is not None])
    found.append([store.product for store in region.stores if store.product.kind == FULL])
    return found


def needed(nodes: Sequence[Node]) -> list[Source]:
    """Sources that nodes come from, without those that only row values come from."""
    found: dict[Source, None] = {}
    work = list(nodes)
    seen: set[object] = set()
    while work:
        node = work.pop()
        if isinstance(node, Source):
            found[node] = None
        elif node.kind == FULL and node.member not in seen:
            seen.add(node.member)
            work += [each for each in node.member.nodes if each is not None]
    return list(found)
