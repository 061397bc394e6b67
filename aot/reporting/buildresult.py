"""What a build gives back: values for programs, a table for people.

In: what the pipeline made. Out: BuildResult, as JSON, as text.

>>> summary(result)   # doctest: +SKIP
'source   callables …'
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from aot.reporting.report import plain_table
from aot.settings.wishes import GENERAL

KEPT = "unchanged"
"""How a source came about that an earlier build had compiled; else ``built`` or ``cached``."""
LARGE = 100_000_000
"""Bytes of a wheel: PyPI refuses more, unless it was asked."""
MOST_NAMED = 3
"""Sources that a warning names."""


@dataclass(frozen=True)
class BuiltSource:
    """What one source put into the package."""

    name: str
    path: str
    functions: tuple[str, ...]
    """Names of what Python can call: functions and callable kernels."""
    kernels: int
    images: tuple[str, ...]
    image_bytes: tuple[int, ...]
    """Of each image as it is stored: after compression."""
    blob_bytes: int
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    schedules: str
    """``fast``, or ``general`` where those were off."""
    general: tuple[str, ...]
    """What the general schedule does: ``function: operation: reason``."""
    how: str
    """``built``, ``cached`` or ``unchanged``."""
    seconds: float
    """That its job took."""

    @property
    def slower(self) -> bool:
        """Whether functions of it could have faster kernels."""
        return self.schedules == GENERAL and bool(self.general)


@dataclass(frozen=True)
class BuildResult:
    """A finished build."""

    wheel: Path
    wheel_bytes: int
    sdist: Path | None
    c_files: tuple[Path, ...]
    """The header and the static library for C."""
    tree: Path
    """The generated package, which ``pip install`` takes too."""
    package: str
    """Import name."""
    version: str
    archs: tuple[str, ...]
    sources: tuple[BuiltSource, ...]
    left_out: tuple[str, ...]
    """Sources that the requested architectures leave nothing of."""
    notes: tuple[str, ...]
    seconds: float


def size(count: int) -> str:
    """Bytes as people read them.

    >>> size(896), size(5336), size(123_456_789)
    ('896 B', '5.3 kB', '123.5 MB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 999_950 else f"{count / 1e6:.1f} MB"


def as_json(result: BuildResult) -> dict[str, object]:
    """The result as plain values."""
    plain = dataclasses.asdict(result)
    paths = {"c_files": [str(each) for each in result.c_files]}
    return {key: str(value) if isinstance(value, Path) else value for key, value in plain.items()} | paths


def summary(result: BuildResult) -> str:
    """A table of the sources, and one line about the wheel."""
    rows = [
        [
            each.name,
            str(len(each.functions)),
            str(each.kernels),
            ", ".join(f"{image} {size(stored)}" for image, stored in zip(each.images, each.image_bytes, strict=True)),
            str(each.blob_bytes),
            f"{each.seconds * 1000:.0f}",
            each.how,
        ]
        for each in result.sources
    ]
    table = plain_table("", ["source", "callables", "kernels", "images as stored", "bytes", "ms", "from"], rows)
    built = f"built {result.package} {result.version} in {result.seconds:.1f} s: {result.wheel_bytes} bytes"
    return "\n".join([table, built, *too_large(result)])


def too_large(result: BuildResult) -> list[str]:
    """A warning, for a wheel that an index may refuse, with what makes it smaller."""
    if result.wheel_bytes <= LARGE:
        return []
    per_arch: dict[str, int] = {}
    for each in result.sources:
        for image, stored in zip(each.images, each.image_bytes, strict=True):
            per_arch[image] = per_arch.get(image, 0) + stored
    largest = sorted(result.sources, key=lambda each: -each.blob_bytes)[:MOST_NAMED]
    return [
        f"warning: the wheel has {size(result.wheel_bytes)}, and PyPI takes {size(LARGE)}; device code by image: "
        + ", ".join(f"{image} {size(stored)}" for image, stored in per_arch.items())
        + "; largest sources: "
        + ", ".join(f"{each.name} {size(each.blob_bytes)}" for each in largest),
        "  make it smaller with --compress size, with fewer --archs, or with --split-archs",
    ]
