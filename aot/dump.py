"""The IR of a source after each stage, kept for people.

In: modules and files, one after the other. Out: numbered files in a folder, or nothing.

>>> Dump(None).keep("source.mlir", b"")
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aot import fileset, mlir


@dataclass
class Dump:
    """Writes the IR of each stage to a folder, numbered in order; without a folder it does nothing."""

    folder: str | None
    count: int = field(default=0, init=False)

    def __call__(self, stage: str, module: mlir.Module) -> None:
        if self.folder is not None:
            self.keep(f"{stage}.mlir", f"{module}\n".encode())

    def keep(self, name: str, data: bytes) -> None:
        """One more file."""
        if self.folder is not None:
            fileset.write_file(Path(self.folder) / f"{self.count:02}-{name}", data)
            self.count += 1
