"""Which tiles the attention of a function has: its own choice, the user's, or what ptxas left of those.

In: a Wish, and kernels that were made before and needed too many registers. Out: the tile of each kernel; what is not
possible.

Attention that a wished kernel does not compute (few queries where it is for many, arrays that it does not read) has
other kernels, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from mlir import ir

from aot.lower.analysis import opwalk
from aot.lower.launches import tiling
from aot.settings.wishes import ATTENTIONS, FLASH, HOPPER_DECODE, SIZES_OF, WORSE_ATTENTION, Dropped, Wish, no_sizes
from aot.tiling import ATTENTION

_Tile = TypeVar("_Tile")


class _Keyed(Protocol):
    """A dataclass of a tile's sizes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def keys(self) -> int:
        """Of a piece."""


_KeyedTile = TypeVar("_KeyedTile", bound=_Keyed)


@dataclass(frozen=True)
class Pick:
    """For the attention of one function."""

    wish: Wish | None = None
    dropped: tuple[Dropped, ...] = ()

    def asks(self, schedule: str) -> bool:
        """Whether the user wants this kernel."""
        return self.wish is not None and self.wish.schedule == schedule

    def leaves(self, schedule: str) -> bool:
        """Whether a kernel may be made: not where the user wants the one that would come behind it."""
        return self.wish is None or WORSE_ATTENTION.get(self.wish.schedule) != schedule

    def size(self, name: str, usual: int) -> int:
        """A size of the kernel that is asked for."""
        return dict(self.wish.sizes).get(name, usual) if self.wish else usual

    def with_keys(
        self,
        schedule: str,
        usual: _KeyedTile,
        step: int,
        asked: Callable[[_KeyedTile, Pick], _KeyedTile],
        told: Callable[[_KeyedTile], Mapping[str, int]],
    ) -> _KeyedTile:
        """What is asked for, else the usual tile, else one with fewer keys: the first whose registers did not spill."""
        mine = [asked(usual, self), usual] if self.asks(schedule) else [usual]
        less = [replace(usual, keys=keys) for keys in range(usual.keys - step, 0, -step)]
        return self.best(schedule, [*mine, *less], told)

    def best(self, schedule: str, tiles: Sequence[_Tile], told: Callable[[_Tile], Mapping[str, int]]) -> _Tile:
        """The first tile whose registers did not spill; the last one stays, whatever it takes."""
        gone = {each.tiling.tile for each in self.dropped if each.schedule == schedule and each.is_final}
        return next((each for each in tiles if tuple(told(each).items()) not in gone), tiles[-1])


def pick(wish: Wish | None, dropped: Collection[Dropped], function: str) -> Pick:
    """For a function, of which a wish without problems speaks."""
    mine = [each for each in dropped if each.function == function and each.tiling.kind == ATTENTION]
    return Pick(wish, tuple(mine))


def impossible(wish: Wish) -> str:
    """What is wrong with the sizes, whatever the attention."""
    return no_sizes(wish.schedule, dict(wish.sizes), SIZES_OF[wish.schedule])


def too_large(sizes: Mapping[str, int], room: int, most: int) -> str:
    """What is wrong with sizes of which a block's shared memory has no room; empty when it has."""
    what = ", ".join(f"{name} {size}" for name, size in sizes.items())
    return f"{what} take {room} bytes of shared memory, of which a block has {most}" if room > most else ""


def unmet(wish: Wish, function: ir.Operation) -> str:
    """Why the function's kernels are not what was wished for; empty when some are."""
    launches = opwalk.named(function, "gpu.launch")
    names = dict.fromkeys(name for op in launches if (name := tiling.schedule_of(op)) in ATTENTIONS)
    if wish.schedule in names:
        return ""
    where = "in images for sm_90" if wish.schedule in (FLASH, HOPPER_DECODE) else "in images from sm_80 on"
    have = f"; it has {', '.join(names)}" if names else ""
    return f"no attention of it has schedule '{wish.schedule}', which is for f16 and bf16 {where}{have}"
