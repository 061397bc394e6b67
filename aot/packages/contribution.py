"""What one source puts into a package, and what is told of it: facts, and texts that only have to be put together.

Made once for a result (``aot.packages.jobresults``), so that a package of many sources of which few have changed is
soon written.

>>> Content("a.mlir", contribution, None, (), read).name                      # doctest: +SKIP
'a'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aot.model import CompiledSource
from aot.reporting.buildresult import BuiltSource


@dataclass(frozen=True)
class Texts:
    """A source in the files of a package."""

    table: str
    """Its part of a C file of tables."""
    stub: str
    """The file of its namespace for type checkers."""
    help: tuple[tuple[str, str], ...]
    """(signature, documentation) of what can be called, for people."""


@dataclass(frozen=True)
class Contribution:
    """Everything but the compiled code itself."""

    built: BuiltSource
    """For the build's result; how it came about is the build's to say."""
    functions: tuple[str, ...]
    """Names of the functions that have host code."""
    blob: bool
    """There is code for GPUs."""
    gpu: bool
    """Something can be called that runs on a GPU."""
    cpu: bool
    """A function has CPU code."""
    host: tuple[tuple[str, str], ...]
    """(triple, variant) of each HostObject."""
    images: tuple[tuple[str, str], ...]
    """(kind, version of PTX) of each image."""
    details: tuple[str, ...]
    """What is told of it with ``-v``."""
    manifest: str
    """Its module in the manifest, as one line of JSON."""
    texts: Texts


@dataclass(frozen=True)
class Content:
    """A source, ready to be packaged."""

    path: str
    """As the user gave it."""
    contribution: Contribution
    blob: bytes | None
    host: tuple[bytes, ...]
    """The assembly of each of ``contribution.host``."""
    source: Callable[[], CompiledSource]
    """Reads all of it."""

    @property
    def name(self) -> str:
        """Its namespace."""
        return self.contribution.built.name
