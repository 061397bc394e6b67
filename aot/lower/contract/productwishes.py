"""What ``aot.toml`` wants of the products of a function: a schedule on tensor cores, and a tile.

In: a Wish. Out: the tile of ``wgmma``; which tiles of ``mma.sync`` are left; what is not possible.
Products that a tile cannot compute (one row, arrays that TMA does not read) have other kernels, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from aot.lower.analysis import opwalk
from aot.lower.contract.products import kinds
from aot.lower.contract.products.problem import Problem
from aot.lower.contract.wgmma import wgmmatile
from aot.lower.launches import tiling
from aot.settings.wishes import MMA, SIZES_OF, WGMMA, Wish, no_sizes

_ROWS, _COLUMNS, _CLUSTERS = (64, 128), (64, 128, 144, 160, 176, 192, 208, 224, 240, 256), (1, 2, 4)
_USUAL = 64
"""What columns are multiples of that go with all rows, clusters and types."""
_FOUR = 4
"""Blocks beside each other."""
_OWN = "others that `aot build -v` shows are the tool's own picks"
_HALF = 2
"""Bytes of elements for which all columns are."""
_MOST_STAGES = 12
_STAGES = 6
"""Where there is room for them, and none are wished for."""


def impossible(wish: Wish) -> str:
    """All that is wrong with the sizes, whatever the product."""
    sizes = dict(wish.sizes)
    found = [no_sizes(wish.schedule, sizes, SIZES_OF[wish.schedule])]
    if wish.schedule == WGMMA:
        found += _impossible(sizes)
    return "; ".join(filter(None, found))


def _impossible(sizes: Mapping[str, int]) -> list[str]:
    """What is wrong with a tile of ``wgmma``."""
    ranges = (("m", _ROWS), ("n", _COLUMNS), ("cluster", _CLUSTERS))
    wrong = [(name, possible) for name, possible in ranges if sizes.get(name, possible[0]) not in possible]
    found = [f"{name} {sizes[name]} is not possible; {', '.join(map(str, possible))} are" for name, possible in wrong]
    found += [_OWN] if found else []
    rows, columns = sizes.get("m", _ROWS[-1]), sizes.get("n", _COLUMNS[-1])
    cluster = sizes.get("cluster", 1)
    if columns in _COLUMNS and columns % _USUAL and (rows, cluster) != (_ROWS[-1], 1):
        found.append(f"n {columns} goes with m {_ROWS[-1]} and cluster 1 only")
    elif cluster == _FOUR and (rows, columns) != (128, 128):
        found.append(f"cluster {cluster} goes with m 128 and n 128 only")
    if rows not in _ROWS or columns not in _COLUMNS:
        rows, columns = _ROWS[0], _COLUMNS[0]
    stages, most = sizes.get("stages", 2), _room(rows, columns)
    if not 2 <= stages <= most:
        found.append(f"stages {stages} of a tile of {rows} x {columns} are not possible; 2 to {most} are")
    return found


def wgmma_tile(wish: Wish) -> wgmmatile.Tile:
    """The tile of a wish without problems."""
    sizes = dict(wish.sizes)
    rows, columns = sizes.get("m", _ROWS[-1]), sizes.get("n", _COLUMNS[-1])
    stages = sizes.get("stages", min(_STAGES, _room(rows, columns)))
    cluster = sizes.get("cluster", 1)
    below, beside = (1, cluster) if cluster == _FOUR else (cluster, 1)
    return wgmmatile.Tile(rows, columns, stages, rows // 64, below=below, beside=beside, chunks=rows // 64)


def may_have(wish: Wish, job: Problem) -> bool:
    """Whether the tile of a wish goes with the problem's types and layout."""
    if wish.schedule != WGMMA:
        return False
    tile, kind = wgmma_tile(wish), kinds.of(job)
    if tile.columns % _USUAL == 0 and tile.cluster != _FOUR:
        return True
    plain = kind is not None and kind.bytes == _HALF and job.window is None
    return plain and not (tile.cluster == _FOUR and job.left.turned)


def is_left(wish: Wish | None, rows: int, columns: int, all_tiles: Sequence[tuple[int, int]]) -> bool:
    """Whether a tile of ``mma.sync`` remains: all do where the wish names none of them."""
    if wish is None or wish.schedule != MMA:
        return True
    wanted = [each for each in all_tiles if _fits(dict(wish.sizes), *each)]
    return not wanted or (rows, columns) in wanted


def unmet(wish: Wish, function: ir.Operation) -> str:
    """Why the function's kernels are not what was wished for; empty when some are."""
    made = [tiling.read(op) for op in opwalk.named(function, "gpu.launch") if tiling.schedule_of(op) == wish.schedule]
    if not made:
        return f"no product of it has schedule '{wish.schedule}', which is for {_products_of(wish)}"
    sizes = [dict(each.tile) for each in made if each is not None]
    if any(all(each.get(name) == size for name, size in wish.sizes) for each in sizes):
        return ""
    tiles = dict.fromkeys(", ".join(f"{name} {each[name]}" for name in SIZES_OF[wish.schedule]) for each in sizes)
    return f"no kernel of schedule '{wish.schedule}' has these sizes; kernels have {'; '.join(tiles)}"


def _products_of(wish: Wish) -> str:
    """Which products a schedule is for, and which of them its sizes; as ``may_have`` decides."""
    if wish.schedule != WGMMA:
        return "narrow types in images from sm_80 on"
    every, sizes = "f16, bf16, i8, fp8 and tf32 in images for sm_90", dict(wish.sizes)
    if sizes.get("cluster") == _FOUR:
        return f"{every}; cluster {_FOUR} is for matrices of f16 or bf16, the left one not transposed"
    columns = sizes.get("n", _USUAL)
    return f"{every}; n {columns} is for matrices of f16 or bf16" if columns % _USUAL else every


def _fits(sizes: dict[str, int], rows: int, columns: int) -> bool:
    return sizes.get("rows", rows) == rows and sizes.get("columns", columns) == columns


def _room(rows: int, columns: int) -> int:
    """Stages for which there is room."""
    return next(n for n in range(_MOST_STAGES, 1, -1) if wgmmatile.has_room(rows, columns, n))
