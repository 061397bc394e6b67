"""Remembers what a step made, and from what, so that a step with nothing to do is not done.

In: a file for the record, and a key: the digest of all that the step depends on. Out: the value that was recorded
under this key, as long as the files that the step made are still what they were.

>>> Stamp(Path("/nowhere/made.json"), "ab12").read(str) is None
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aot import codec, fileset

Value = TypeVar("Value")


@dataclass(frozen=True)
class Record:
    """What the file holds."""

    key: str
    value: str
    """As JSON."""
    files: tuple[tuple[str, str], ...]
    """(absolute path, digest)."""


@dataclass(frozen=True)
class Stamp:
    """A step's record."""

    file: Path
    key: str

    def read(self, kind: type[Value]) -> Value | None:
        """The value; None when something else was made, or is there now."""
        try:
            # A pipe in a file's place would be read forever.
            if not self.file.is_file():
                return None
            record = codec.decode(self.file.read_bytes(), Record)
            intact = record.key == self.key and all(
                Path(path).is_file() and _digest(Path(path)) == digest for path, digest in record.files
            )
        except (OSError, ValueError):
            return None
        return codec.decode(record.value.encode(), kind) if intact else None

    def write(self, value: object, files: Sequence[Path]) -> None:
        """Records a step that is done."""
        digests = tuple((str(path), _digest(path)) for path in files)
        fileset.write_file(self.file, codec.encode(Record(self.key, codec.encode(value).decode(), digests)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
