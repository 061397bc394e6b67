"""Architectures: the one table, the value type Target, and what runs where.

In: canonical names. Out: Targets, and answers about compatibility. The accepted spellings of a
list of architectures are read by ``archlist``.

>>> target("sm_90a").capability, target("sm_90a").letter
((9, 0), 'a')
>>> runs_on(target("sm_80"), (8, 9)), runs_on(target("sm_90a"), (10, 0)), runs_on(target("compute_80"), (12, 0))
(True, False, True)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aot.errors import UnknownArch

Capability = tuple[int, int]
"""Compute capability: major, minor."""
Version = tuple[int, int]
"""Of CUDA or of the PTX ISA: major, minor."""

CUBIN, PTX = "cubin", "ptx"

REGISTERS_PER_BLOCK = 64 * 1024
"""32-bit registers that the threads of a block share, on every architecture of the table."""
WARP = 32
"""Threads that run together, on every architecture."""
MAX_THREADS_PER_BLOCK = 1024
MAX_PTX: Version = (9, 0)
"""Newest PTX ISA that LLVM 22 writes."""
CUBIN_PTX: Version = (8, 8)
"""PTX ISA used on the way to a cubin: new enough for every intrinsic, and known to CUDA 12.9's ptxas."""


def dotted(version: Version | None) -> str:
    """``8.6``; ``none`` where there is none."""
    return "none" if version is None else f"{version[0]}.{version[1]}"


@dataclass(frozen=True)
class Arch:
    """One compute capability."""

    capability: Capability
    generation: str
    """NVIDIA's name for it."""
    ptx: Version | None
    """Lowest PTX ISA that knows it; None: LLVM 22 has no code generation for it."""
    shared: int
    """Bytes of shared memory that a block may opt in to."""
    toolkit: Version
    """First CUDA toolkit whose ptxas knows it."""
    letters: tuple[tuple[str, Version], ...] = ()
    """Feature letters (``a``, ``f``) and the lowest PTX ISA of each."""
    family: tuple[Capability, ...] = ()
    """Capabilities that code for its ``f`` target runs on."""


_KIB = 1024
_A = "a"
_F = "f"


def _blackwell(
    capability: Capability, ptx: Version, toolkit: Version, shared: int, a: Version, f: Version, family: str
) -> Arch:
    members = tuple((int(word[:-1]), int(word[-1])) for word in family.split())
    return Arch(capability, "Blackwell", ptx, shared * _KIB, toolkit, ((_A, a), (_F, f)), members)


TABLE: tuple[Arch, ...] = (
    Arch((5, 0), "Maxwell", (4, 0), 48 * _KIB, (6, 0)),
    Arch((5, 2), "Maxwell", (4, 1), 48 * _KIB, (6, 5)),
    Arch((5, 3), "Maxwell", (4, 2), 48 * _KIB, (7, 0)),
    Arch((6, 0), "Pascal", (5, 0), 48 * _KIB, (8, 0)),
    Arch((6, 1), "Pascal", (5, 0), 48 * _KIB, (8, 0)),
    Arch((6, 2), "Pascal", (5, 0), 48 * _KIB, (8, 0)),
    Arch((7, 0), "Volta", (6, 0), 96 * _KIB, (9, 0)),
    Arch((7, 2), "Volta", (6, 1), 96 * _KIB, (9, 2)),
    Arch((7, 5), "Turing", (6, 3), 64 * _KIB, (10, 0)),
    Arch((8, 0), "Ampere", (7, 0), 163 * _KIB, (11, 0)),
    Arch((8, 6), "Ampere", (7, 1), 99 * _KIB, (11, 1)),
    Arch((8, 7), "Ampere", (7, 4), 163 * _KIB, (11, 4)),
    Arch((8, 8), "Ampere", (9, 0), 99 * _KIB, (13, 0)),
    Arch((8, 9), "Ada", (7, 8), 99 * _KIB, (11, 8)),
    Arch((9, 0), "Hopper", (7, 8), 227 * _KIB, (11, 8), ((_A, (8, 0)),)),
    _blackwell((10, 0), (8, 6), (12, 8), 227, (8, 6), (8, 8), "100 103"),
    _blackwell((10, 1), (8, 6), (12, 8), 227, (8, 6), (8, 8), "101 110"),
    _blackwell((10, 3), (8, 8), (12, 9), 227, (8, 8), (8, 8), "103"),
    Arch((10, 7), "", None, 227 * _KIB, (13, 5)),
    _blackwell((11, 0), (9, 0), (13, 0), 227, (9, 0), (9, 0), "101 110"),
    _blackwell((12, 0), (8, 7), (12, 8), 99, (8, 7), (8, 8), "120 121"),
    _blackwell((12, 1), (8, 8), (12, 9), 99, (8, 8), (8, 8), "121"),
)
"""Every architecture by capability. Minimum PTX versions are those that LLVM 22's NVPTX back end enforces."""

RENAMED: dict[str, str] = {"10.1": "11.0", "11.0": "10.1"}
"""One chip, two names: CUDA 12 called it 10.1, CUDA 13 calls it 11.0."""

GENERATIONS: dict[str, tuple[Capability, ...]] = {
    "turing": ((7, 5),),
    "ampere": ((8, 0), (8, 6)),
    "ada": ((8, 9),),
    "hopper": ((9, 0),),
    "blackwell": ((10, 0), (10, 3), (12, 0), (12, 1)),
}
"""Names that stand for lists of architectures; embedded ones (8.7, 11.0) are asked for by number."""

_BY_CAPABILITY = {arch.capability: arch for arch in TABLE}

CURRENT: tuple[Capability, ...] = tuple(
    arch.capability for arch in TABLE if arch.capability >= (7, 5) and arch.ptx and arch.capability != (10, 1)
)
"""What today's toolkit can build: the rows of a coverage matrix."""


@dataclass(frozen=True)
class Target:
    """One image to build: a cubin for one architecture, or PTX for one."""

    capability: Capability
    letter: str = ""
    """``a`` (exactly this capability's features), ``f`` (its family's), or nothing."""
    kind: str = CUBIN

    @property
    def name(self) -> str:
        """Canonical spelling: ``sm_90a``, ``compute_90``."""
        return f"{'sm' if self.kind == CUBIN else 'compute'}_{self.number}"

    @property
    def number(self) -> str:
        """``90a``."""
        return f"{self.capability[0]}{self.capability[1]}{self.letter}"

    @property
    def chip(self) -> str:
        """As LLVM and ptxas call the processor: ``sm_90a``, for PTX too."""
        return f"sm_{self.number}"

    @property
    def arch(self) -> Arch:
        return _BY_CAPABILITY[self.capability]

    @property
    def min_ptx(self) -> Version | None:
        """Lowest PTX ISA for it; None when LLVM cannot generate code for it."""
        arch = self.arch
        return dict(arch.letters)[self.letter] if self.letter and arch.ptx else arch.ptx

    def sort_key(self) -> tuple[bool, Capability, str]:
        return (self.kind == PTX, self.capability, self.letter)


def target(name: str) -> Target:
    """The Target of a canonical name; UnknownArch with the nearest one otherwise.

    >>> target("compute_90").kind
    'ptx'
    """
    found = _TARGETS.get(name)
    if found is None:
        raise unknown(name)
    return found


def unknown(spelling: str, why: str = "") -> UnknownArch:
    """The error for a spelling that names no architecture."""
    near = nearest(spelling)
    meant = f"; did you mean '{near}'?" if near else ""
    return UnknownArch(
        f"unknown architecture '{spelling}'{': ' + why if why else ''}{meant}",
        hint="spell it sm_90, 90, 9.0, compute_90 (PTX), 9.0+PTX, all-major, native or host; `aot targets` lists all",
    )


def nearest(spelling: str, among: Iterable[str] = ()) -> str:
    """The canonical name that a spelling, right or wrong, is nearest to; empty when none is near.

    >>> nearest("sm_9")
    'sm_90'
    """
    names = sorted(among) or [*_TARGETS, *GENERATIONS]
    word = spelling.strip().lower().replace("-", "_")
    digits = "".join(c for c in word if c.isdigit())
    # A shorter number is more often a forgotten digit than a wrong one: sm_9 means sm_90, not sm_89.
    close = [name for name in names if digits and name == f"sm_{digits}0"]
    guesses = (word, f"sm_{digits}", f"sm_{word.replace('.', '')}") if digits else (word,)
    for guess in guesses:
        close += difflib.get_close_matches(guess, names, n=1, cutoff=0.75)
    return close[0] if close else ""


def runs_on(image: Target, capability: Capability) -> bool:
    """Whether a device of this capability can run the image.

    A plain cubin runs on its major at its minor or above, ``a`` on exactly its capability,
    ``f`` on its family, and plain PTX on everything from its capability on.
    """
    if image.letter == "a":
        return capability == image.capability
    if image.letter == "f":
        return capability in image.arch.family
    if image.kind == PTX:
        return capability >= image.capability
    return capability[0] == image.capability[0] and capability >= image.capability


@dataclass(frozen=True)
class Coverage:
    """What one device capability gets from a list of images."""

    capability: Capability
    how: str
    """``cubin``, ``ptx`` or ``none``."""
    image: str = ""
    """Name of the image; empty for none."""


def coverage(images: Sequence[Target], capabilities: Sequence[Capability] = CURRENT) -> tuple[Coverage, ...]:
    """The image the driver takes on each capability: the most specific cubin, else the newest PTX that fits."""
    return tuple(_best(images, capability) for capability in capabilities)


def _best(images: Sequence[Target], capability: Capability) -> Coverage:
    fitting = [image for image in images if runs_on(image, capability)]
    if not fitting:
        return Coverage(capability, "none")
    # Of one capability the driver prefers sm_90a to sm_90 (seen on a 9.0 device); f stands between.
    best = max(fitting, key=lambda image: (image.kind == CUBIN, image.capability, " fa".index(image.letter or " ")))
    return Coverage(capability, best.kind, best.name)


def default_ptx(targets: Sequence[Target]) -> Target | None:
    """The PTX that goes into a package beside these cubins: of the highest plain one; never of an ``a`` or ``f``."""
    plain = [each.capability for each in targets if not each.letter]
    return Target(max(plain), kind=PTX) if plain else None


def coverage_note(targets: Sequence[Target]) -> str:
    """A warning when no image can run on architectures newer than the requested ones; else empty."""
    if not targets or any(each.kind == PTX for each in targets):
        return ""
    names = ", ".join(each.name for each in targets)
    top = max(each.capability for each in targets)
    return (
        f"no PTX for newer GPUs: {names} run on these architectures only; "
        f"add a base architecture (such as sm_{top[0]}{top[1]} or compute_{top[0]}{top[1]}) to run on later ones"
    )


def other_name(capability: Capability) -> Capability | None:
    """The same chip's capability in the other CUDA major version (10.1 and 11.0)."""
    other = RENAMED.get(dotted(capability))
    return None if other is None else (int(other.split(".")[0]), int(other.split(".")[1]))


def features(version: Version) -> str:
    """LLVM's feature string for a PTX ISA version: ``+ptx80``."""
    return f"+ptx{version[0]}{version[1]}"


def ptx_versions(image: Target) -> tuple[Version, ...]:
    """PTX ISA versions that the image may be written in, lowest first; empty when LLVM cannot."""
    lowest = image.min_ptx
    return tuple(v for v in _PTX_VERSIONS if v >= lowest) if lowest else ()


def cubin_ptx(image: Target, newest: Version = CUBIN_PTX) -> Version | None:
    """The PTX ISA used on the way to this cubin: it never leaves the build, so newer is better.

    ``newest`` is the newest that ptxas reads.
    """
    lowest = image.min_ptx
    return max(lowest, min(newest, CUBIN_PTX)) if lowest else None


_PTX_VERSIONS: tuple[Version, ...] = (
    (4, 0), (4, 1), (4, 2), (5, 0), (6, 0), (6, 1), (6, 3), (7, 0), (7, 1), (7, 4), (7, 8), (8, 0), (8, 1), (8, 3),
    (8, 4), (8, 6), (8, 7), (8, 8), MAX_PTX,
)  # fmt: skip


def _all_targets() -> dict[str, Target]:
    found = []
    for arch in TABLE:
        found.append(Target(arch.capability, kind=PTX))
        found.extend(Target(arch.capability, letter) for letter in ("", *(name for name, _ in arch.letters)))
    return {each.name: each for each in found}


_TARGETS = _all_targets()
