"""``aot.tuned.toml``: what `aot tune` found to be fastest, in the words of ``aot.toml``, beside which it lies.

In: Picks, and the file's text as it was. Out: its new text: what it says of other functions stays.

>>> print(text([Pick("s", "f", 1, Candidate("row", (("threads", 64),)), "2 µs instead of 3 µs")], "", "an H200"))
# Written by `aot tune`: what is fastest on an H200. What aot.toml says of a function wins.
edition = 1
<BLANKLINE>
# 2 µs instead of 3 µs
[source.s.function.f.region.1]
schedule = "row"
threads = 64
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aot.config import EDITION
from aot.tunecandidates import Candidate


@dataclass(frozen=True)
class Pick:
    """The fastest way to compute a region."""

    source: str
    function: str
    region: int
    candidate: Candidate
    remark: str
    """How much is gained, at which extents."""


def text(picks: Sequence[Pick], before: str, gpu: str, tuned: Sequence[tuple[str, str]] = ()) -> str:
    """The file; ``tuned``: sources and functions of which it says nothing else than ``picks``."""
    gone = [
        re.compile(rf"^\[source\.{source}\.function\.{function}[.\]]", re.MULTILINE)
        for source, function in {*tuned, *((each.source, each.function) for each in picks)}
    ]
    blocks = before.strip().split("\n\n")[1:]
    kept = [block for block in blocks if not any(header.search(block) for header in gone)]
    head = f"# Written by `aot tune`: what is fastest on {gpu}. What aot.toml says of a function wins."
    return "\n\n".join([f"{head}\nedition = {EDITION}", *kept, *map(_block, picks)]) + "\n"


def header(source: str, function: str, region: int) -> str:
    """Of the table for a region, or, where it is 0, for all products of the function."""
    return f"[source.{source}.function.{function}{f'.region.{region}' if region else ''}]"


def _block(pick: Pick) -> str:
    sizes = [f"{name} = {size}" for name, size in pick.candidate.sizes]
    schedule = [f'schedule = "{pick.candidate.schedule}"'] if pick.candidate.schedule else []
    return "\n".join([f"# {pick.remark}", header(pick.source, pick.function, pick.region), *schedule, *sizes])
