"""What the user and the assembler say about the schedules of regions.

In: wishes of ``aot.toml``, and kernels that were made before and needed too many registers. Out: for one region, a
Choice; at the end, an error that lists the wishes that cannot be met.

A wish that does not fit is an UnfitError, whose message names what would.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from aot.errors import ConfigError
from aot.lower.fast.region import Region
from aot.lower.launches import tiling
from aot.model import Function
from aot.settings.wishes import ATTENTIONS, FAST, GENERAL, PRODUCTS, ROOMY, SIZES_OF, Dropped, Wish, no_sizes

ASKED = "aot.toml asks for it"


class UnfitError(Exception):
    """A wish that the region cannot have."""


@dataclass(frozen=True)
class Choice:
    """For one region."""

    schedule: str = ""
    """The one that is wished for; empty: the best one."""
    sizes: tuple[tuple[str, int], ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def general(self) -> bool:
        return self.schedule == GENERAL

    @property
    def asks(self) -> bool:
        """Whether the user wants another kernel than there would be."""
        return not self.general and bool(self.schedule or self.sizes)

    def limit(self, possible: Sequence[str], sizes: Sequence[str]) -> None:
        """UnfitError for another schedule than the possible ones, or sizes that they do not let users choose."""
        if self.schedule and self.schedule not in possible:
            names = ", ".join([*possible, GENERAL])
            raise UnfitError(f"schedule '{self.schedule}' is not for it; possible are {names}")
        reason = no_sizes(self.schedule or possible[0], dict(self.sizes), sizes)
        if reason:
            raise UnfitError(reason)

    def is_only(self, size: str) -> bool:
        """Whether no other size is wished for."""
        return all(name == size for name, _ in self.sizes)

    def width(self, schedule: str, widest: int) -> int:
        """Elements of a vector, of a schedule that has nothing else to choose."""
        wished = dict(self.sizes).get("width", widest) if self.schedule in ("", schedule) else widest
        if wished > widest or wished & (wished - 1):
            raise UnfitError(f"width {wished} is not possible; {_powers(widest)} are")
        refused = {dict(each.tiling.tile).get("width") for each in self._gone() if each.schedule == schedule}
        while wished > 1 and wished in refused:
            wished //= 2
        return wished

    def is_dropped(self, schedule: str, sizes: Mapping[str, int], remarks: Sequence[str]) -> bool:
        """Whether a kernel of these sizes was dropped."""
        return any(each.names(schedule, sizes, (*remarks, ROOMY)) for each in self._gone())

    def _gone(self) -> list[Dropped]:
        return [each for each in self.dropped if each.is_final]


def _powers(widest: int) -> str:
    return ", ".join(str(1 << n) for n in range(widest.bit_length()))


@dataclass
class Wished:
    """Of all functions of a source."""

    wishes: Sequence[Wish] = ()
    dropped: Collection[Dropped] = ()
    schedules: str = FAST
    """What functions have of which the wishes say nothing."""
    problems: list[str] = field(default_factory=list)
    products: set[str] = field(default_factory=set)
    """Functions with products that have kernels of their own."""
    attention: set[str] = field(default_factory=set)
    """Functions with attention in one kernel."""

    def choice(self, function: str, region: Region) -> Choice:
        """What holds for a region: its own wish, else the function's."""
        wish = max(self._of(function, region), key=lambda each: each.region, default=None)
        dropped = tuple(
            each for each in self.dropped if (each.function, each.tiling.region) == (function, region.number)
        )
        return Choice(wish.schedule, wish.sizes, dropped) if wish else Choice(dropped=dropped)

    def one_of(self, schedules: Collection[str], function: str) -> Wish | None:
        """What holds for the products of a function, or for its attention."""
        return next((each for each in self.wishes if each.function == function and each.schedule in schedules), None)

    def _of(self, function: str, region: Region) -> list[Wish]:
        mine = [each for each in self.wishes if each.function == function and each.for_regions]
        return [each for each in mine if each.region in (0, region.number)]

    def heard(self, functions: Iterable[Function]) -> list[Function]:
        """Functions that fast schedules are asked about: of a source without them, those that wishes name."""
        named = {each.function for each in self.wishes}
        return [each for each in functions if self.schedules == FAST or each.name in named]

    def free(self, functions: Iterable[Function]) -> list[Function]:
        """Those of them that are not left to the general schedule as a whole."""
        general = {each.function for each in self.wishes if each.schedule == GENERAL and not each.region}
        return [each for each in self.heard(functions) if each.name not in general]

    def spilled(self, function: str) -> tuple[Dropped, ...]:
        """Kernels of a function that were made before, and spilled."""
        return tuple(each for each in self.dropped if each.function == function)

    def give_room(self, function: str, launches: Iterable[ir.Operation]) -> None:
        """Let kernels that spilled have the registers that they want, before other ones are tried.

        ptxas prefers a few bytes in memory to one block less on a multiprocessor; ``minctasm`` forbids it.
        """
        spilled = {
            (each.schedule, each.tiling.region, each.tiling.tile, each.tiling.remarks)
            for each in self.spilled(function)
        }
        for op in launches:
            made, name = tiling.read(op), tiling.schedule_of(op)
            if made is None or (name, made.region, made.tile, made.remarks) not in spilled:
                continue
            tiling.give_registers(op)
            tiling.mark(op, made.kind, made.region, name, dict(made.tile), (*made.remarks, ROOMY))

    def refuse(self, function: str, region: Region, reason: str) -> None:
        """Note that a wish cannot be met."""
        wish = max(self._of(function, region), key=lambda each: each.region)
        self.problems.append(f"{wish.place}: region {region.number} ({region.kind}): {reason}{self._advice(wish)}")

    def finish(self, regions: Mapping[str, int]) -> None:
        """ConfigError for all wishes that were not met; ``regions``: how many each function has."""
        for each in self.wishes:
            count = regions.get(each.function, 0)
            if each.for_regions and (each.region > count or not count):
                self.problems.append(f"{each.place}: {_regions(count)}{self._advice(each)}")
        if self.problems:
            raise ConfigError("\n".join(self.problems), hint="`aot build -v` shows regions, schedules and sizes")

    def _advice(self, wish: Wish) -> str:
        """What could be meant, where the function has products, or attention."""
        have = ((self.products, "products have", PRODUCTS), (self.attention, "attention has", ATTENTIONS))
        found = [(what, schedules) for functions, what, schedules in have if wish.function in functions]
        if not found or wish.schedule == GENERAL:
            return ""
        texts = [f"{what} schedules {_listed(schedules)}" for what, schedules in found]
        known = "; " + ", ".join(texts)
        if wish.schedule:
            return f"{known} to choose; their other kernels are the tool's own picks"
        names = [name for _, schedules in found for name in schedules if {*dict(wish.sizes)} <= {*SIZES_OF[name]}]
        return f'{known}; for sizes of theirs, `schedule = "{names[0]}"` is missing' if names else known


def _listed(names: Sequence[str]) -> str:
    """``'a', 'b' and 'c'``."""
    quoted = [f"'{name}'" for name in names]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _regions(count: int) -> str:
    if not count:
        return "the function has no region of linalg operations that schedules could be chosen for"
    return f"the function has {count} region{'s' if count > 1 else ''}"
