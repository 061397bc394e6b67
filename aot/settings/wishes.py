"""What ``aot.toml`` says about the schedules of a function, and of its regions.

In: the table ``[source.<name>.function]`` as TOML's parser gives it. Out: Wishes, for the lowering; what is wrong.

>>> read({"forward": {"schedule": "row", "region": {"2": {"width": 1}}}}, lambda key: f"aot.toml: {key}")
(Wish(function='forward', region=0, schedule='row', sizes=(), place='aot.toml: forward'), \
Wish(function='forward', region=2, schedule='', sizes=(('width', 1),), place='aot.toml: forward.region.2'))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot.errors import ConfigError, UsageError
from aot.tiling import Tiling

SCHEDULE, REGION = "schedule", "region"
FAST, GENERAL = SCHEDULES = ("fast", "general")
"""What functions without a table get: the best schedule of their class, or the one that is correct for everything."""
WGMMA, MMA = PRODUCTS = ("wgmma", "mma")
"""Schedules of products; they hold for all products of a function, and for nothing else in it."""
FLASH, MMA_FLASH, HOPPER_DECODE, DECODE = ATTENTIONS = ("flash", "mma-flash", "hopper-decode", "decode")
"""Schedules of attention in one kernel; they hold for all attention of a function, and for nothing else in it."""
WORSE_ATTENTION = {MMA_FLASH: FLASH, DECODE: HOPPER_DECODE}
"""Schedules that come behind others, which do the same where they can run."""
SIZES_OF = {
    WGMMA: ("m", "n", "stages", "cluster"),
    MMA: ("rows", "columns"),
    FLASH: ("queries", "keys", "stages"),
    MMA_FLASH: ("queries", "rows", "keys"),
    HOPPER_DECODE: ("keys", "stages"),
    DECODE: ("keys",),
}
"""Sizes of schedules of products and of attention."""
SIZES = ("threads", "rows", "vectors", "width", "columns", "m", "n", "queries", "keys", "stages", "cluster")
"""Sizes that some schedule lets users choose."""
KEYS = (SCHEDULE, *SIZES)


@dataclass(frozen=True)
class Wish:
    """For one function, or one of its regions."""

    function: str
    region: int
    """From 1 on; 0: all of the function."""
    schedule: str
    """Empty: the one that would be taken anyway."""
    sizes: tuple[tuple[str, int], ...]
    place: str
    """Where it stands, for messages: ``aot.toml:7: [source.softmax.function.forward]``."""

    @property
    def for_regions(self) -> bool:
        """Whether it holds for regions; else for products, or for attention."""
        return self.schedule not in SIZES_OF


ROOMY = "room for registers"
"""Remark of a kernel for which ptxas may not trade registers for blocks side by side."""


@dataclass(frozen=True)
class Dropped:
    """A kernel that is not to be made again as it was: its registers spilled."""

    function: str
    schedule: str
    tiling: Tiling

    @property
    def is_final(self) -> bool:
        """Whether room for registers did not help."""
        return ROOMY in self.tiling.remarks

    def names(self, schedule: str, sizes: Mapping[str, int], remarks: Sequence[str]) -> bool:
        """Whether a kernel of this schedule, these sizes and remarks is meant."""
        mine = (self.schedule, self.tiling.tile, self.tiling.remarks)
        return mine == (schedule, tuple(sizes.items()), tuple(remarks))


def problems(functions: object) -> Iterator[tuple[str, str]]:
    """(dotted key below ``function``, what is wrong)."""
    if not isinstance(functions, dict):
        yield "", "tables [source.<name>.function.<function>] are needed"
        return
    for function, table in functions.items():
        yield from _problems(function, table, (*KEYS, REGION))
        regions = table.get(REGION, {}) if isinstance(table, dict) else {}
        if not isinstance(regions, dict):
            yield f"{function}.{REGION}", "tables by number are needed: [source.<name>.function.<function>.region.2]"
            continue
        for number, each in regions.items():
            key = f"{function}.{REGION}.{number}"
            if not number.isdecimal() or int(number) < 1:
                yield key, "regions are numbered from 1 on; `aot build -v` shows their numbers"
            yield from _problems(key, each, KEYS)
            for what, schedules in (("products are", PRODUCTS), ("attention is", ATTENTIONS)):
                if isinstance(each, dict) and each.get(SCHEDULE) in schedules:
                    yield f"{key}.{SCHEDULE}", f"{what} in no region: it belongs into the function's own table"


def _problems(key: str, table: object, known: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not isinstance(table, dict):
        yield key, f"a table is needed, with {', '.join(known)}"
        return
    for name, value in table.items():
        if name not in known:
            yield f"{key}.{name}", f"unknown key{nearest(name, known)}; known are {', '.join(known)}"
        elif name == SCHEDULE and not (isinstance(value, str) and value):
            yield f"{key}.{name}", f"the name of a schedule is needed; got {value!r}"
        elif name in SIZES and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield f"{key}.{name}", f"a positive number is needed; got {value!r}"


def no_sizes(schedule: str, wished: Iterable[str], known: Sequence[str]) -> str:
    """What is wrong with sizes that a schedule does not let users choose; empty when it does."""
    foreign = [f"'{name}'" for name in wished if name not in known]
    other = f"it has {', '.join(known)}" if known else "it has none to choose"
    return f"schedule '{schedule}' has no size {', '.join(foreign)}; {other}" if foreign else ""


def read(functions: Mapping[str, Any], place: Callable[[str], str]) -> tuple[Wish, ...]:
    """All wishes of a table without problems; ``place`` tells where a key stands."""
    found: list[Wish] = []
    for function, table in functions.items():
        if set(table) - {REGION}:
            found.append(_wish(function, 0, table, place(function)))
        for number, each in table.get(REGION, {}).items():
            found.append(_wish(function, int(number), each, place(f"{function}.{REGION}.{number}")))
    return tuple(found)


def _wish(function: str, region: int, table: Mapping[str, Any], place: str) -> Wish:
    sizes = tuple((name, table[name]) for name in SIZES if name in table)
    return Wish(function, region, table.get(SCHEDULE, ""), sizes, place)


def nearest(word: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?`` when one of the known words is near."""
    near = difflib.get_close_matches(word, known, 1, 0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def known_schedules(said: str | None) -> str | None:
    """What the command line says of all functions; UsageError for a word that nobody knows."""
    if said is not None and said not in SCHEDULES:
        raise UsageError(f"unknown schedules '{said}'{nearest(said, SCHEDULES)}; choose {' or '.join(SCHEDULES)}")
    return said


def check_functions(wishes: Iterable[Wish], functions: Sequence[str]) -> None:
    """ConfigError for wishes about functions that are not there, or are not written at tensor level."""
    problems = []
    for each in wishes:
        if each.function not in functions:
            hint = nearest(each.function, functions)
            problems.append(f"{each.place}: the source has no tensor-level function '{each.function}'{hint}")
    if problems:
        raise ConfigError("\n".join(problems))
