"""The candidates of a region of rows: the table's, and what a Choice changes about them.

In: facts about a region, and a Choice. Out: candidates in the order in which they are to be tried.

A schedule that is wished for comes first, with the sizes that are wished for; where it cannot run, the others follow.
A candidate that was dropped gives way to one with fewer registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from aot.lower.fast import table
from aot.lower.fast.rowwise.chunks import EXACT, MASKED, SHIFTED
from aot.lower.fast.rowwise.rowjob import REGISTERS, Tile
from aot.lower.fast.table import Candidate, Facts
from aot.lower.fast.wished import Choice, UnfitError
from aot.targets.arch import WARP

SIZES = ("threads", "rows", "vectors", "width")
_ANY, _POINTWISE = "any-row", "pointwise"
_MOST_THREADS, _MOST_VECTORS = 1024, 64


def candidates(facts: Facts, choice: Choice, *, gaps: bool) -> list[Candidate]:
    """What to try, in order; the last one always runs. ``gaps``: rows do not follow each other in memory."""
    found = table.candidates(facts)
    if choice.schedule or choice.sizes:
        found = _wished(found, facts, choice)
    return list(_left(list(dict.fromkeys(each.with_gaps() for each in found)) if gaps else found, facts, choice))


def _wished(found: list[Candidate], facts: Facts, choice: Choice) -> list[Candidate]:
    offers = table.offers(facts)
    # What has no reductions is not done by rows at last.
    shown = [name if facts.reduces or name != _ANY else _POINTWISE for name in offers]
    choice.limit(shown, SIZES)
    if choice.schedule == _POINTWISE:
        choice.limit(shown, ("width",))
        return offers[_ANY]
    name = choice.schedule or next((each for each in found if not each.sliced), found[0]).tile.name
    mine = list(dict.fromkeys(_sized(each, facts, dict(choice.sizes)) for each in offers[name]))
    rest = [each for each in found if each.tile.name != name]
    if any(_takes_all(each) for each in mine):
        rest = [each for each in rest if not each.aligned]
    return [*mine, *rest]


def _takes_all(candidate: Candidate) -> bool:
    """Whether it can run wherever memory is aligned and a row has a few vectors."""
    limits = (candidate.most, candidate.multiple, candidate.sliced, candidate.shared, candidate.most_rows)
    return not any(limits)


def _sized(candidate: Candidate, facts: Facts, sizes: Mapping[str, int]) -> Candidate:
    """The same with other sizes; UnfitError where a row cannot be dealt out like that."""
    if not sizes:
        return candidate
    old = candidate.tile
    tile = replace(
        old,
        group=sizes.get("threads", old.group),
        rows=sizes.get("rows", 1 if sizes.get("threads", 0) > WARP else old.rows),
        vectors=sizes.get("vectors", old.vectors),
        width=sizes.get("width", old.width),
        flexible=old.flexible and "threads" not in sizes,
        whole=0,
    )
    reason = _misfit(tile, table.width(facts))
    if reason:
        raise UnfitError(reason)
    tile = replace(tile, mode=_mode(tile, facts))
    if tile.mode == SHIFTED and tile.group < table.least_threads(tile.width):
        raise UnfitError(f"threads {tile.group} are too few for rows that begin anywhere, with width {tile.width}")
    if tile.keep == REGISTERS and facts.columns is not None and tile.reach < facts.columns - tile.slack:
        held = f"threads {tile.group} x vectors {tile.vectors} x width {tile.width} hold {tile.reach} columns"
        raise UnfitError(f"{held} of a row of {facts.columns}")
    return _made(candidate, tile, facts)


def _made(candidate: Candidate, tile: Tile, facts: Facts) -> Candidate:
    """A candidate with another tile: conditions follow from it."""
    most = tile.reach + tile.slack if tile.keep == REGISTERS and facts.columns is None else candidate.most
    vectors = tile.width > 1
    multiple = vectors and tile.mode == MASKED and facts.columns is None
    least = 2 * table.width(facts) if candidate.tile.whole else candidate.least
    return replace(candidate, tile=tile, aligned=vectors, most=most, least=least, multiple=multiple)


def _misfit(tile: Tile, widest: int) -> str:
    """All that is wrong with the sizes."""
    found = []
    if tile.width > widest or tile.width & (tile.width - 1):
        found.append(f"width {tile.width} is not possible; powers of two up to {widest} are")
    rest = tile.group % WARP if tile.group > WARP else tile.group & (tile.group - 1)
    if tile.group > _MOST_THREADS or rest:
        whole = f"multiples of {WARP} up to {_MOST_THREADS}"
        found.append(f"threads {tile.group} is not possible; {whole}, and powers of two below, are")
    elif tile.rows > 1 and tile.group > WARP:
        found.append(f"rows {tile.rows} is not possible with more than {WARP} threads for each")
    elif tile.threads > _MOST_THREADS:
        found.append(f"rows {tile.rows} of {tile.group} threads are more than {_MOST_THREADS} threads")
    if tile.vectors > _MOST_VECTORS:
        found.append(f"vectors {tile.vectors} is not possible; at most {_MOST_VECTORS} are")
    return "; ".join(found)


def _mode(tile: Tile, facts: Facts) -> str:
    """What the ends of rows need."""
    if tile.width == 1 and (facts.columns is None or tile.keep != REGISTERS):
        return MASKED
    if facts.columns is None:
        return MASKED if tile.mode == EXACT else tile.mode
    if facts.columns % tile.width:
        return SHIFTED
    return EXACT if tile.keep == REGISTERS and tile.reach == facts.columns else MASKED


def _left(found: list[Candidate], facts: Facts, choice: Choice) -> Iterator[Candidate]:
    """Without those that were dropped; the last one stays, whatever it takes."""
    for number, candidate in enumerate(found):
        each: Candidate | None = candidate
        while each is not None and choice.is_dropped(each.tile.name, each.tile.sizes(), each.tile.remarks()):
            each = _smaller(each, facts)
        if each is not None or number == len(found) - 1:
            yield each or candidate


def _smaller(candidate: Candidate, facts: Facts) -> Candidate | None:
    """One whose threads hold less of a row; None where there is none."""
    tile = candidate.tile
    more = 2 * tile.group
    rows = 1 if more > WARP else max(1, tile.rows // 2)
    if tile.keep == REGISTERS and tile.width > 1 and (tile.vectors == 1 or more * rows > _MOST_THREADS):
        return _made(candidate, table.in_memory(facts), facts)
    if tile.vectors == 1:
        return None
    less = replace(tile, vectors=-(-tile.vectors // 2), whole=0)
    if tile.keep == REGISTERS:
        less = replace(less, group=more, rows=rows)
        less = replace(less, mode=_mode(less, facts))
    return _made(candidate, less, facts)
