"""Lists of architectures as users spell them.

In: ``sm_80,sm_90a`` or ``8.0;9.0a;12.0+PTX`` or ``80-real;90-virtual`` or names. Out: an ArchList of
canonical Targets, sorted, without repetitions.

>>> parse("9.0a; 80 120+PTX").names()
('sm_80', 'sm_90a', 'sm_120', 'compute_120')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.errors import UnknownArch, UsageError
from aot.targets.arch import CURRENT, GENERATIONS, PTX, Capability, Target, target, unknown

DEFAULT = "sm_80,sm_90"
"""What is built when nothing is said."""

_SEPARATORS = re.compile(r"[,;\s]+")
_SPELLING = re.compile(
    r"(?P<prefix>sm_?|compute_?)?(?P<number>\d+\.\d+|\d+)(?P<letter>[a-z]?)(?P<suffix>\+ptx|-real|-virtual)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class ArchList:
    """Architectures of one build."""

    targets: tuple[Target, ...]
    """Sorted: cubins by capability, then PTX."""
    host: bool = False
    """CPU code was asked for too."""
    notes: tuple[str, ...] = ()
    """What was worked out rather than said, such as what ``native`` means here."""

    def names(self) -> tuple[str, ...]:
        """Canonical spellings."""
        return tuple(each.name for each in self.targets)


def parse(text: str | Sequence[str], native: Callable[[], Sequence[Capability]] | None = None) -> ArchList:
    """Read a list; UnknownArch names every word that is none, with the nearest architecture.

    ``native`` tells the capabilities of the devices that the driver shows; without it the word is refused.
    """
    words = [word for part in ([text] if isinstance(text, str) else text) for word in _SEPARATORS.split(part) if word]
    if not words:
        raise UsageError("the list of architectures is empty", hint=f"for example: --archs {DEFAULT}")
    found: set[Target] = set()
    notes: list[str] = []
    problems: list[UnknownArch] = []
    for word in words:
        try:
            if word.lower() == "native":
                found.update(_native(native, notes))
            elif word.lower() != "host":
                found.update(_word(word))
        except UnknownArch as problem:
            problems.append(problem)
    if problems:
        raise UnknownArch("\n".join(each.message for each in problems), hint=problems[0].hint)
    host = any(word.lower() == "host" for word in words)
    return ArchList(tuple(sorted(found, key=Target.sort_key)), host, tuple(notes))


def plain(text: str) -> Target:
    """The one architecture of a text, with neither a feature letter nor PTX; UnknownArch when it is anything else."""
    found = parse(text)
    if found.host or len(found.targets) != 1 or found.targets[0].letter or found.targets[0].kind == PTX:
        raise UnknownArch("one plain architecture is needed, such as sm_80")
    return found.targets[0]


def _word(word: str) -> tuple[Target, ...]:
    lowered = word.lower()
    if lowered == "all":
        return tuple(Target(capability) for capability in CURRENT)
    if lowered == "all-major":
        majors = sorted({major for major, _ in CURRENT})
        return tuple(Target(min(c for c in CURRENT if c[0] == major)) for major in majors)
    named = tuple(Target(capability) for capability in GENERATIONS.get(lowered.removesuffix("+ptx"), ()))
    if named:
        return (*named, Target(named[-1].capability, kind=PTX)) if lowered.endswith("+ptx") else named
    return _spelled(word)


def _spelled(word: str) -> tuple[Target, ...]:
    match = _SPELLING.fullmatch(word)
    if match is None:
        raise unknown(word)
    number, letter = match["number"].replace(".", ""), match["letter"].lower()
    suffix, prefix = (match["suffix"] or "").lower(), (match["prefix"] or "").lower()
    if prefix.startswith("compute") and suffix:
        raise unknown(word, f"'compute_' and '{suffix}' do not go together")
    wants_ptx = prefix.startswith("compute") or suffix in ("+ptx", "-virtual")
    if wants_ptx and letter:
        target(f"sm_{number}{letter}")
        raise UnknownArch(
            f"'{word}': PTX with the letter '{letter}' would not run on newer GPUs, so it is never made",
            hint=f"ask for the cubin sm_{number}{letter}, and for compute_{number} beside it if the code allows",
        )
    try:
        cubin = target(f"sm_{number}{letter}")
    except UnknownArch:
        raise unknown(word) from None
    if not wants_ptx:
        return (cubin,)
    ptx = Target(cubin.capability, kind=PTX)
    return (cubin, ptx) if suffix == "+ptx" else (ptx,)


def _native(ask: Callable[[], Sequence[Capability]] | None, notes: list[str]) -> tuple[Target, ...]:
    capabilities = sorted(set(ask())) if ask is not None else []
    if not capabilities:
        raise UsageError(
            "'native' was asked for, but the driver shows no GPU on this machine",
            hint="name the architectures instead, for example: --archs sm_90",
        )
    targets = tuple(target(f"sm_{major}{minor}") for major, minor in capabilities)
    notes.append(f"native means {', '.join(each.name for each in targets)} on this machine")
    return targets
