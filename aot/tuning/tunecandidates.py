"""What `aot tune` tries: other schedules and sizes for a region than those that it has.

In: a region's class, and the schedule and tile of its first kernel. Out: candidates in the words of ``aot.toml``. Some
may not be possible for the region: the compiler says so when it is asked.

>>> [each.text() for each in candidates("pointwise", "pointwise", {"threads": 128, "vectors": 2, "width": 4})][:2]
['pointwise: width 1', 'pointwise: width 2']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.settings.wishes import DECODE, FLASH, HOPPER_DECODE, MMA, MMA_FLASH, SIZES_OF, WGMMA
from aot.targets.arch import WARP
from aot.tiling import ATTENTION, CONTRACTIONS

Sizes = tuple[tuple[str, int], ...]

_WIDTHS = (1, 2, 4, 8, 16)
_BLOCKS = (128, 256, 512, 1024)
_TURNS = (1, 2, 4)
"""Vectors that a thread reads in one turn of a loop."""
_OTHER_ROWS = ("row", "long-row", "cluster-row", "slices", "any-row")
_LOOPS = ("long-row", "cluster-row")
_WGMMA = (
    *((128, 256, 4, 1), (128, 256, 4, 2), (128, 224, 4, 1), (128, 192, 4, 1), (128, 192, 4, 2), (128, 160, 4, 1)),
    *((128, 128, 6, 1), (128, 128, 6, 2), (128, 128, 6, 4)),
    *((128, 64, 6, 1), (64, 256, 5, 1), (64, 128, 9, 1), (64, 128, 6, 2), (64, 64, 12, 1)),
)
"""Rows and columns of the tile, stages, blocks of a cluster."""
_ATTENTION: dict[str, dict[int, tuple[tuple[int, ...], ...]]] = {
    FLASH: {
        64: (
            *((128, 128, 2), (128, 128, 3), (128, 128, 4), (192, 96, 2), (192, 96, 3), (192, 80, 2), (192, 112, 2)),
            *((128, 176, 2), (128, 160, 2), (128, 96, 3), (128, 64, 4)),
        ),
        128: ((128, 128, 2), (128, 112, 2), (128, 96, 2), (128, 80, 3), (128, 64, 3), (128, 64, 4), (192, 80, 2)),
    },
    MMA_FLASH: {
        64: ((128, 32, 64), (128, 32, 48), (128, 32, 96), (128, 16, 64), (64, 32, 64), (64, 16, 64)),
        128: ((128, 32, 48), (128, 32, 32), (128, 16, 32), (128, 16, 64), (64, 32, 32), (64, 16, 64)),
        256: ((64, 16, 32), (64, 16, 16), (128, 16, 16), (32, 16, 32)),
    },
    HOPPER_DECODE: {
        64: ((128, 2), (128, 4), (64, 3), (64, 4), (64, 6), (256, 2)),
        128: ((64, 2), (64, 4), (64, 6), (128, 2), (128, 3)),
    },
    DECODE: {64: ((16,), (32,))},
}
"""Sizes of attention, by the elements of a query or a value."""
_MMA = ((128, 256), (128, 128), (128, 64), (64, 64))


@dataclass(frozen=True)
class Candidate:
    """One way to compute a region."""

    schedule: str
    sizes: Sizes = ()

    def text(self) -> str:
        """As `aot build -v` says it."""
        return ": ".join(filter(None, [self.schedule, ", ".join(f"{name} {size}" for name, size in self.sizes)]))


def candidates(kind: str, schedule: str, tile: Mapping[str, int]) -> list[Candidate]:
    """What to try beside the kernel that is there; nothing for a class whose schedules cannot be chosen."""
    made = _MAKERS.get(kind)
    found = list(dict.fromkeys(made(schedule, tile))) if made else []
    return [each for each in found if each.schedule != schedule or not _is_same(each.sizes, tile)]


def _is_same(sizes: Sizes, tile: Mapping[str, int]) -> bool:
    return all(tile.get(name) == size for name, size in sizes)


def _widths(schedule: str, tile: Mapping[str, int]) -> Iterator[Candidate]:
    """The one that is there is the widest that is possible."""
    yield from (Candidate(schedule, (("width", each),)) for each in _WIDTHS if each <= tile.get("width", 1))


def _rows(schedule: str, tile: Mapping[str, int]) -> Iterator[Candidate]:
    if schedule == "row":
        yield from _dealt(tile)
    elif schedule in _LOOPS:
        yield from _looped(schedule)
    elif schedule == "total":
        yield from _widths(schedule, tile)
    for each in _OTHER_ROWS:
        if each != schedule:
            yield Candidate(each)
            yield from _looped(each) if each in _LOOPS else ()


def _dealt(tile: Mapping[str, int]) -> Iterator[Candidate]:
    """A row in registers of more or fewer threads, which hold as much of it together."""
    threads, vectors, width = tile["threads"], tile["vectors"], tile["width"]
    for wide in (width, width // 2):
        reach = threads * vectors * width
        for group in (8, 16, WARP, 64, *_BLOCKS):
            held = -(-reach // (group * max(1, wide)))
            if wide and held <= 16:
                for rows in (1, 2, 4, 8, 16) if group <= WARP else (1,):
                    if group * rows >= 64:
                        yield Candidate("row", (("threads", group), ("rows", rows), ("vectors", held), ("width", wide)))


def _looped(schedule: str) -> Iterator[Candidate]:
    for threads in _BLOCKS:
        for vectors in _TURNS:
            yield Candidate(schedule, (("threads", threads), ("vectors", vectors)))


def _products(schedule: str, tile: Mapping[str, int]) -> Iterator[Candidate]:
    if schedule == WGMMA:
        for each in _WGMMA:
            yield Candidate(WGMMA, tuple(zip(("m", "n", "stages", "cluster"), each, strict=True)))
    for rows, columns in _MMA:
        yield Candidate(MMA, (("rows", rows), ("columns", columns)))


def _attention(schedule: str, tile: Mapping[str, int]) -> Iterator[Candidate]:
    elements = max(tile.get("depth", 0), tile.get("width", 0))
    for most, sizes in _ATTENTION.get(schedule, {}).items():
        if elements <= most:
            yield from (Candidate(schedule, tuple(zip(SIZES_OF[schedule], each, strict=True))) for each in sizes)
            return


_MAKERS = {
    "pointwise": _widths,
    "rows": _rows,
    "columns": _widths,
    "transposes": _widths,
    CONTRACTIONS: _products,
    ATTENTION: _attention,
}


def limited(found: Sequence[Candidate], most: int) -> list[Candidate]:
    """At most so many, spread over all of them."""
    if len(found) <= most:
        return list(found)
    return [found[number * len(found) // most] for number in range(most)]


def far_apart_first(found: Sequence[Candidate]) -> list[Candidate]:
    """The same in another order, in which those at the front are spread over all of them."""
    bits = len(found).bit_length()
    return [found[number] for number in sorted(range(len(found)), key=lambda each: f"{each:0{bits}b}"[::-1])]
