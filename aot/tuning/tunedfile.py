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

from aot.settings.config import EDITION
from aot.tuning.tunecandidates import Candidate


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
        re.compile(rf"^\[source\.{source}\.function\.{function}[.\]]")
        for source, function in {*tuned, *((each.source, each.function) for each in picks)}
    ]
    blocks = _tables(before)
    kept = ["\n".join(lines) for key, lines in blocks if not any(each.search(key) for each in gone)]
    head = f"# Written by `aot tune`: what is fastest on {gpu}. What aot.toml says of a function wins."
    return "\n\n".join([f"{head}\nedition = {EDITION}", *kept, *map(_block, picks)]) + "\n"


def header(source: str, function: str, region: int) -> str:
    """Of the table for a region, or, where it is 0, for all products of the function."""
    return f"[source.{source}.function.{function}{f'.region.{region}' if region else ''}]"


def _tables(text: str) -> list[tuple[str, list[str]]]:
    """Tables of a file, by header without blanks and quotes, each with the comments above it; what is before is not."""
    found: list[tuple[str, list[str]]] = []
    above: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            found.append((re.sub(r"[\s\"']", "", line), [*above, line]))
            above = []
        elif line.startswith("#"):
            above.append(line)
        elif line:
            if found:
                found[-1][1].extend([*above, line])
            above = []
    return found


def values(candidate: Candidate) -> list[str]:
    """Lines of its table."""
    schedule = [f'schedule = "{candidate.schedule}"'] if candidate.schedule else []
    return [*schedule, *(f"{name} = {size}" for name, size in candidate.sizes)]


def _block(pick: Pick) -> str:
    return "\n".join([f"# {pick.remark}", header(pick.source, pick.function, pick.region), *values(pick.candidate)])
