"""Finds which dynamic extents of a function must agree, by asking the function.

In: a signature and a way to call it with given extents. Out: Dims: classes of dimensions that must be equal, a letter
for each, and extents that work. Tensor-level functions check extents before they work, so asking is safe: all
extents different at first, then what the messages say is made equal, then pairs are tried. Others do not check all
that they touch (``Signature.checks_extents``): theirs are all equal from the start.

>>> find(matmul, ask).letters                                                    # doctest: +SKIP
{(0, 0): 'm', (0, 1): 'n', (1, 0): 'n', (1, 1): 'k'}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from aot.verifying.signature import Dim, Signature

Ask = Callable[[Mapping[Dim, int]], str]
"""Calls the function with these extents; the error's text, empty when there is none."""
Partition = tuple[tuple[Dim, ...], ...]

LETTERS = "mnklpqrsuvw"
PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
SCHEMES = (PRIMES, tuple(16 * n for n in range(1, 12)), tuple(64 * n for n in range(1, 12)), (256,) * 11)
"""Extents to begin with: distinct primes show most; some code takes multiples only."""
BUFFERS = (256,) * 11
"""Extents of functions that check nothing: they fit most tiles and blocks."""

_EQUAL = re.compile(r"extent (\d+) of '(\w+)' \(\d+\) is not extent (\d+) of '(\w+)'")
_FIXED = re.compile(r"extent (\d+) of '(\w+)' \(\d+\) is not (\d+)\b")
_SMALL = re.compile(r"extent (\d+) of '(\w+)' \(\d+\) is too small")
_OF_THE_CALL = re.compile(r" \((?:(?:[a-z]+ )*-?\d+,? ?)+\)")
"""Numbers in a message of aot's own that another call has otherwise: "(7)", "(offset 0, size 4)"."""
MOST_QUESTIONS = 400


@dataclass(frozen=True)
class Dims:
    """What was found."""

    classes: Partition
    extents: Mapping[Dim, int]
    """Extents that work."""
    letters: Mapping[Dim, str]
    fixed: frozenset[Dim]
    """Dimensions whose extent the user or the function demands."""
    refusal: str = ""
    """What the function says to everything that was tried; empty when the extents work."""


@dataclass
class _Search:
    """One search: the questions asked so far and what is fixed."""

    signature: Signature
    ask: Ask
    values: Sequence[int]
    fixed: dict[Dim, int]
    questions: int = 0

    def extents(self, classes: Partition) -> dict[Dim, int]:
        found: dict[Dim, int] = {}
        for number, members in enumerate(classes):
            extent = next((self.fixed[dim] for dim in members if dim in self.fixed), self.values[number % 11])
            found |= dict.fromkeys(members, extent)
        return found

    def error(self, classes: Partition) -> str:
        self.questions += 1
        return self.ask(self.extents(classes))


def find(signature: Signature, ask: Ask, given: Mapping[str, int]) -> Dims:
    """Finds the classes; ``given`` has extents by ``x.0`` or by letter."""
    dims = signature.dims()
    by_name = {signature.dim_name(dim): dim for dim in dims}
    fixed = {by_name[name]: extent for name, extent in given.items() if name in by_name}
    if not signature.checks_extents:
        free = tuple(dim for dim in dims if dim not in fixed)
        return _done(_Search(signature, ask, BUFFERS, fixed), _split((free,), fixed), given)
    first = ""
    for values in SCHEMES:
        search = _Search(signature, ask, values, dict(fixed))
        classes, error = _settle(search, tuple((dim,) for dim in dims))
        if not error:
            return _done(search, classes, given)
        first = first or error
    return Dims((), {}, {}, frozenset(), first)


def _split(classes: Partition, fixed: Mapping[Dim, int]) -> Partition:
    return tuple(members for members in (*classes, *((dim,) for dim in sorted(fixed))) if members)


def _settle(search: _Search, classes: Partition) -> tuple[Partition, str]:
    """Makes extents equal until the function is content, or nothing helps."""
    error = search.error(classes)
    while error and search.questions < MOST_QUESTIONS:
        better = _told(search, classes, error)
        if better is None:
            better = _tried(search, classes, error)
        if better is None:
            break
        classes = better
        error = search.error(classes)
    return classes, error


def _told(search: _Search, classes: Partition, error: str) -> Partition | None:
    """What the message itself says, if that is something new."""
    numbers = {parameter.name: number for number, parameter in enumerate(search.signature.parameters)}
    known = {dim for members in classes for dim in members}
    if found := _EQUAL.search(error):
        one, other = (numbers.get(found[2], -1), int(found[1])), (numbers.get(found[4], -1), int(found[3]))
        if {one, other} <= known and _class_of(classes, one) != _class_of(classes, other):
            return _merged(classes, one, other)
    if found := _FIXED.search(error):
        return _fix(search, classes, (numbers.get(found[2], -1), int(found[1])), int(found[3]))
    if found := _SMALL.search(error):
        dim = (numbers.get(found[2], -1), int(found[1]))
        if dim in known:
            return _fix(search, classes, dim, 2 * search.extents(classes)[dim] + 1)
    return None


def _fix(search: _Search, classes: Partition, dim: Dim, extent: int) -> Partition | None:
    members = _class_of(classes, dim)
    if not members or search.extents(classes)[dim] == extent:
        return None
    search.fixed = {key: value for key, value in search.fixed.items() if key not in members} | {dim: extent}
    return classes


def _tried(search: _Search, classes: Partition, error: str) -> Partition | None:
    """The pair of dimensions, or the two pairs, whose agreement changes the answer; the least surprising first."""
    pairs = _pairs(search.signature, classes, error)
    for one, other in pairs:
        merged = _merged(classes, one, other)
        if search.questions < MOST_QUESTIONS and _differ(search.error(merged), error):
            return merged
    for first, second in combinations(pairs, 2):
        merged = _merged(_merged(classes, *first), *second)
        if search.questions < MOST_QUESTIONS and _differ(search.error(merged), error):
            return merged
    return None


def _differ(answer: str, other: str) -> bool:
    """Whether two answers come from two checks."""
    return _OF_THE_CALL.sub("", answer) != _OF_THE_CALL.sub("", other)


def _pairs(signature: Signature, classes: Partition, error: str) -> list[tuple[Dim, Dim]]:
    """Representatives of classes to make equal: of different arguments, named in the message, near in position."""
    heads = [members[0] for members in classes]

    def surprise(pair: tuple[Dim, Dim]) -> tuple[bool, int, bool, int]:
        (one, axis), (other, second) = pair
        names = (signature.parameters[number].name for number in (one, other))
        unnamed = sum(not re.search(rf"\b{re.escape(name)}\b", error) for name in names)
        return one == other, unnamed, axis != second, abs(one - other)

    return sorted(combinations(heads, 2), key=surprise)


def _class_of(classes: Partition, dim: Dim) -> tuple[Dim, ...]:
    return next((members for members in classes if dim in members), ())


def _merged(classes: Partition, one: Dim, other: Dim) -> Partition:
    first, second = _class_of(classes, one), _class_of(classes, other)
    if first == second:
        return classes
    rest = tuple(members for members in classes if members not in (first, second))
    return tuple(sorted((*rest, tuple(sorted(first + second)))))


def _done(search: _Search, classes: Partition, given: Mapping[str, int]) -> Dims:
    classes = tuple(sorted(classes))
    letters = {
        dim: LETTERS[number] if number < len(LETTERS) else f"d{number}"
        for number, members in enumerate(classes)
        for dim in members
    }
    named = {dim: given[letter] for dim, letter in letters.items() if letter in given and dim not in search.fixed}
    extents = search.extents(classes) | named
    demanded = {dim for members in classes if any(each in search.fixed for each in members) for dim in members}
    refusal = search.ask(extents) if named and search.signature.checks_extents else ""
    return Dims(classes, extents, letters, frozenset(demanded | set(named)), refusal)
