"""The words of ``--dims`` and ``--range``.

In: texts such as ``m=64,x.1=128`` and ``ids=0:n``. Out: what each name means.

>>> extents(["m=64,x.1=128"])
{'m': 64, 'x.1': 128}
>>> ranges(["ids=0:n,eps=1e-5:1e-5"])["ids"]
Range(low='0', high='n')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aot.errors import UsageError


@dataclass(frozen=True)
class Range:
    """Where an argument's values lie: each end is a number or a dimension's name; integers stay below the high end."""

    low: str
    high: str

    def resolved(self, names: Mapping[str, int]) -> tuple[float, float]:
        """Both ends as numbers; UsageError for a name that is no dimension of the function."""
        low, high = self._end(self.low, names), self._end(self.high, names)
        if low > high:
            raise UsageError(
                f"--range: '{self.low}:{self.high}': the low end, {low:g}, is above the high end, {high:g}"
            )
        return low, high

    def _end(self, text: str, names: Mapping[str, int]) -> float:
        if text in names:
            return names[text]
        try:
            return float(text)
        except ValueError:
            raise UsageError(
                f"--range: '{text}' is neither a number nor a dimension; dimensions here are {', '.join(names)}"
            ) from None


def extents(texts: Sequence[str]) -> dict[str, int]:
    """Extent by name of ``--dims``."""
    found = {}
    for name, value in _pairs("--dims", texts, "m=64,x.1=128"):
        if not value.isdecimal():
            raise UsageError(f"--dims: '{name}={value}': an extent is a whole number, 0 or more")
        found[name] = int(value)
    return found


def ranges(texts: Sequence[str]) -> dict[str, Range]:
    """Range by argument of ``--range``."""
    found = {}
    for name, value in _pairs("--range", texts, "ids=0:n"):
        low, colon, high = value.partition(":")
        if not colon or not low or not high:
            raise UsageError(f"--range: '{name}={value}': a range is LOW:HIGH, as in ids=0:n")
        found[name] = Range(low, high)
    return found


def _pairs(option: str, texts: Sequence[str], example: str) -> Iterator[tuple[str, str]]:
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"{option}: '{part}' is not NAME=VALUE", hint=f"write it as {option} {example}")
        yield name, value
