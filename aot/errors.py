"""Every error a user can meet, with the exit code the command line ends with.

A message says what is wrong, which file:line, argument or arch it concerns, and
what to do next. Stages raise these and never print; ``cli`` shows them in one place.

>>> raise UnknownArch("unknown arch 'sm_9'; did you mean 'sm_90'?")   # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_LINE = 200
"""Characters of a source line that are shown."""


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place of a source."""

    message: str
    file: str = ""
    """Path as the user gave it; empty when the place is unknown."""
    line: int = 0
    """1-based; 0 when unknown."""
    column: int = 0
    """1-based; 0 when unknown."""
    source_line: str = ""
    """Text of that line, without its newline; empty when unknown."""
    notes: tuple[Diagnostic, ...] = ()

    def place(self) -> str:
        """``file:line:column`` as far as it is known."""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"

    def text(self) -> str:
        """The diagnostic as compilers print it: place, message, source line, caret, notes."""
        place = self.place()
        lines = [f"{place}: error: {self.message}" if place else self.message]
        if self.source_line:
            # Of a very long line the part around the place.
            start = max(0, self.column - 1 - MAX_LINE // 2) if len(self.source_line) > MAX_LINE else 0
            lines.append(f"    {self.source_line[start : start + MAX_LINE]}")
            if self.column:
                lines.append("    " + " " * (self.column - 1 - start) + "^")
        for note in self.notes:
            lines.append(note.text().replace(": error: ", ": note: ", 1))
        return "\n".join(lines)


class AotError(Exception):
    """Root of all errors a user can cause."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What to do next, one line; empty when the message says it."""
        self.diagnostics = diagnostics

    def text(self) -> str:
        """Everything to show: message, diagnostics, hint."""
        parts = [self.message, *(d.text() for d in self.diagnostics)]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class SourceError(AotError):
    """A source cannot be read, parsed, verified or classified."""


class LoweringError(AotError):
    """Valid IR that cannot become GPU or host code."""


class ArchUnfit(LoweringError):
    """The code needs an architecture that was not requested, or a requested one cannot run it."""


class CompilerCrash(AotError):
    """MLIR, LLVM or ptxas died while compiling a source."""


class PackageError(AotError):
    """Names clash, or the generated package could not be built or is not what it should be."""


class DiskError(AotError):
    """A file could not be read or written: permissions, space, a folder in its place."""


class TookTooLong(AotError):
    """A command did not end within its time."""


class MismatchError(AotError):
    """A check of a package found something other than what was asked for."""


class UsageError(AotError):
    """Wrong use: an option, a missing folder, ``aot.toml``."""

    exit_code = 2


class ConfigError(UsageError):
    """``aot.toml`` or another setting is wrong."""


class UnknownArch(UsageError):
    """An architecture's spelling is not one of the accepted ones."""


class ToolMissing(AotError):
    """A tool (MLIR, LLVM, ptxas, a C compiler) is missing or too old for what is asked."""

    exit_code = 3


class ArchUnsupported(ToolMissing):
    """This ptxas cannot build a known architecture."""


class Interrupted(AotError):
    """Ctrl-C."""

    exit_code = 130


@contextlib.contextmanager
def saying(place: str) -> Iterator[None]:
    """Errors of the block begin with where the user said what is wrong, such as a variable; empty: as they are."""
    try:
        yield
    except AotError as error:
        error.message = f"{place}: {error.message}" if place else error.message
        raise


def together(problems: Sequence[AotError], what: str) -> AotError:
    """One error for several: of their class when they agree, with everything that each says."""
    if len(problems) == 1:
        return problems[0]
    kinds = {type(problem) for problem in problems}
    kind = kinds.pop() if len(kinds) == 1 else AotError
    texts = dict.fromkeys(problem.text() for problem in problems)
    return kind(f"{what}\n" + "\n".join(texts))
