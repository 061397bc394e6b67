"""Which line of a source a line of PTX comes from, and which kernel it is in.

In: PTX, whose ``.loc`` directives say it, if it was translated with lines. Out: a Location; its file has no folder.

>>> text = Text('.entry k()\\n{\\n.loc 1 7 3\\nret;\\n}\\n.file 1 "f.mlir"\\n')
>>> text.kernel(4), text.place(4)
('k', Location(file='f.mlir', line=7, column=3))
"""

from __future__ import annotations

import re
from functools import cached_property

from aot.model import Location

_FUNCTION = re.compile(r"\.(?:entry|func)\b(?:\s*\([^)]*\))?\s*([\w$]+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s.*"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")


class Text:
    """The text of a PTX module, by lines that are counted from 1, as ptxas does."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def line(self, number: int) -> str:
        """One line; empty behind the end."""
        return self._lines[number - 1].strip() if number <= len(self._lines) else ""

    def kernel(self, number: int) -> str:
        """The function that holds a line."""
        for line in reversed(self._lines[:number]):
            if found := _FUNCTION.search(line):
                return found[1]
        return "?"

    def place(self, number: int) -> Location | None:
        """Where a line comes from: the last directive in front of it, in the same function, says so."""
        for line in reversed(self._lines[:number]):
            if found := self._told(line):
                return found
            if _FUNCTION.search(line):
                return None
        return None

    def place_of(self, kernel: str) -> Location | None:
        """Where a function comes from: the first directive in it."""
        inside = False
        for line in self._lines:
            if found := _FUNCTION.search(line):
                inside = found[1] == kernel
            elif inside and (place := self._told(line)):
                return place
        return None

    def calls(self, function: str) -> list[int]:
        """The lines that name a function that is only declared."""
        name = re.compile(rf"(?<![\w$]){re.escape(function)}(?![\w$])")
        inside = [number for number, line in enumerate(self._lines, 1) if name.search(line)]
        return [number for number in inside if not _FUNCTION.search(self.line(number))]

    def _told(self, line: str) -> Location | None:
        found = _LOC.match(line)
        # Line 0 is code that comes from nowhere in particular.
        return (
            Location(self._files.get(found[1], ""), int(found[2]), int(found[3])) if found and found[2] != "0" else None
        )

    @cached_property
    def _files(self) -> dict[str, str]:
        """Names by number; they stand behind the code."""
        return {found[1]: found[2] for line in self._lines if (found := _FILE.match(line))}
