"""Shows what a build does, on standard error.

In: events of the pipeline. Out: a progress bar on a terminal, plain lines elsewhere, nothing
with ``--quiet``. A closed or narrow-minded stream never stops a build.

>>> reporter(quiet=True, verbose=False).note("unseen")
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from aot.errors import UsageError


class Reporter(Protocol):
    """What the pipeline tells while it works."""

    @property
    def verbose(self) -> bool:
        """Whether details are shown: whoever has to look for them need not otherwise."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def started(self, what: str) -> None:
        """Work on a piece of the stage has begun."""

    def progress(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` pieces of the stage are finished, ``what`` was the last."""

    def note(self, text: str) -> None:
        """The user should know this."""

    def detail(self, text: str) -> None:
        """Interesting with ``--verbose`` only."""

    def close(self) -> None:
        """The work is over."""


class Silent:
    """Tells nothing; the Reporter of the Python API."""

    verbose = False

    def stage(self, text: str) -> None: ...
    def started(self, what: str) -> None: ...
    def progress(self, done: int, total: int, what: str) -> None: ...
    def note(self, text: str) -> None: ...
    def detail(self, text: str) -> None: ...
    def close(self) -> None: ...


def of_caller(reporter: Reporter | None) -> Once:
    """The reporter that a caller of the Python API gave, or a silent one; UsageError for what is none."""
    methods = ("stage", "started", "progress", "note", "detail", "close")
    if reporter is not None and not all(callable(getattr(reporter, name, None)) for name in methods):
        raise UsageError(f"reporter: an object with the methods {', '.join(methods)} is needed; got {reporter!r}")
    return Once(reporter or Silent())


@dataclass(frozen=True)
class Once:
    """Passes each note on once: compiling and packaging may meet the same trouble, and so may packages of one build."""

    tell: Reporter
    noted: set[str] = field(default_factory=set)

    @property
    def verbose(self) -> bool:
        return self.tell.verbose

    def stage(self, text: str) -> None:
        self.tell.stage(text)

    def started(self, what: str) -> None:
        self.tell.started(what)

    def progress(self, done: int, total: int, what: str) -> None:
        self.tell.progress(done, total, what)

    def note(self, text: str) -> None:
        if text not in self.noted:
            self.noted.add(text)
            self.tell.note(text)

    def detail(self, text: str) -> None:
        self.tell.detail(text)

    def close(self) -> None:
        self.tell.close()


@dataclass
class Plain:
    """One line per event."""

    verbose: bool

    def stage(self, text: str) -> None:
        say(text)

    def started(self, what: str) -> None: ...

    def progress(self, done: int, total: int, what: str) -> None:
        say(f"[{done}/{total}] {what}")

    def note(self, text: str) -> None:
        say(f"note: {text}")

    def detail(self, text: str) -> None:
        if self.verbose:
            say(text)

    def close(self) -> None: ...


def reporter(*, quiet: bool, verbose: bool) -> Reporter:
    """The reporter that fits the options and the stream."""
    if quiet:
        return Silent()
    if not is_terminal(sys.stderr):
        return Plain(verbose)
    # Rich takes a while to import, and only terminals need it.
    from aot.reporting.terminal import Terminal

    return Terminal(verbose)


def say(text: str) -> None:
    """One message on standard error."""
    _write(sys.stderr, text)


def result(text: str) -> None:
    """One result on standard output."""
    _write(sys.stdout, text)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output: boxed on a terminal, aligned columns elsewhere."""
    if not is_terminal(sys.stdout):
        result(plain_table(title, columns, rows))
        return
    from aot.reporting import terminal

    terminal.table(title, columns, rows)


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as text that other programs can cut."""
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows)]
    return "\n".join([*([title] if title else []), *(line.rstrip() for line in lines)])


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody watches this stream; False for a closed one."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _write(stream: TextIO | None, text: str) -> None:
    """Writes a line whatever the stream's encoding; a reader that went away is no error of the build."""
    if stream is None:
        return
    with contextlib.suppress(BrokenPipeError, ValueError):
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


def number(count: int, what: str) -> str:
    """``1 region``, ``2 regions``."""
    return f"{count} {what}{'' if count == 1 else 's'}"
