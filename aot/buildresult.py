"""What a build gives back: values for programs, a table for people.

In: what the pipeline made. Out: BuildResult, as JSON, as text.

>>> summary(result)   # doctest: +SKIP
'source   callables …'
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from aot.report import plain_table

KEPT = "unchanged"
"""How a source came about that an earlier build had compiled; else ``built`` or ``cached``."""


@dataclass(frozen=True)
class BuiltSource:
    """What one source put into the package."""

    name: str
    path: str
    functions: tuple[str, ...]
    """Names of what Python can call: functions and callable kernels."""
    kernels: int
    images: tuple[str, ...]
    blob_bytes: int
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    general: tuple[str, ...]
    """What the general schedule does: ``function: operation: reason``."""
    how: str
    """``built``, ``cached`` or ``unchanged``."""
    seconds: float
    """That its job took."""


@dataclass(frozen=True)
class BuildResult:
    """A finished build."""

    wheel: Path
    wheel_bytes: int
    sdist: Path | None
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


def as_json(result: BuildResult) -> dict[str, object]:
    """The result as plain values."""
    plain = dataclasses.asdict(result)
    return {key: str(value) if isinstance(value, Path) else value for key, value in plain.items()}


def summary(result: BuildResult) -> str:
    """A table of the sources, and one line about the wheel."""
    rows = [
        [
            each.name,
            str(len(each.functions)),
            str(each.kernels),
            " ".join(each.images),
            str(each.blob_bytes),
            f"{each.seconds * 1000:.0f}",
            each.how,
        ]
        for each in result.sources
    ]
    table = plain_table("", ["source", "callables", "kernels", "images", "bytes", "ms", "from"], rows)
    return f"{table}\nbuilt {result.package} {result.version} in {result.seconds:.1f} s: {result.wheel_bytes} bytes"
