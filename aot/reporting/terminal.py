"""What a build and its tables look like on a terminal.

In: events of the pipeline. Out: a bar that fills, with the source that has been at work for longest and the time left;
other lines scroll above it.

>>> Terminal(verbose=False).close()   # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text


class Running(ProgressColumn):
    """How many pieces are at work, and the one that has been for longest."""

    def __init__(self) -> None:
        super().__init__()
        self.since: dict[str, float] = {}

    def render(self, task: Task) -> Text:
        # Sources begin and end in another thread.
        now = list(self.since.items())
        if not now:
            return Text("")
        name, start = min(now, key=lambda each: each[1])
        return Text(f"{len(now)} running, longest {name} {time.monotonic() - start:.0f} s", overflow="ellipsis")


@dataclass
class Terminal:
    """A bar that fills; other lines scroll above it."""

    verbose: bool
    bar: Progress = field(init=False)
    task: TaskID = field(init=False)
    running: Running = field(default_factory=lambda: Running())

    def __post_init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            self.running,
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=None)
        self.bar.start()

    def stage(self, text: str) -> None:
        # A new task: resetting the old one would keep its count.
        self.bar.remove_task(self.task)
        self.task = self.bar.add_task(text, total=None)

    def started(self, what: str) -> None:
        self.running.since[what] = time.monotonic()

    def progress(self, done: int, total: int, what: str) -> None:
        self.running.since.pop(what, None)
        self.bar.update(self.task, completed=done, total=total)
        self.detail(what)

    def note(self, text: str) -> None:
        self.bar.console.print(f"note: {text}", markup=False, highlight=False)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self.bar.stop()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A boxed table on standard output."""
    view = Table(title=title, title_justify="left")
    for column in columns:
        view.add_column(column, overflow="fold")
    for row in rows:
        view.add_row(*row)
    Console().print(view, markup=False)
