"""What the process that calls a package is told, and what it answers, as JSON in a folder.

In the folder: ``job.json``; for each function ``<number>.started`` and ``<number>.json``; ``error.json`` when the whole
job is not possible.

>>> read_report(folder, 0, FunctionReport).rows[0].ok                                            # doctest: +SKIP
True
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aot import codec, errors, fileset
from aot.errors import AotError

JOB, FAILURE, BANDWIDTHS = "job.json", "error.json", "bandwidths.json"

CHECK, SIZE, TIME, TRY, RACE = "check", "size", "time", "try", "race"
"""What to do with functions: compare; find extents to time; time; compare with the first and time roughly; time in
turns."""
ROUNDS, TURN = "rounds.json", "turn"

Report = TypeVar("Report")


@dataclass(frozen=True)
class Sizes:
    """The extents that a function is timed with."""

    extents: tuple[int, ...] = ()
    """Of its dynamic dimensions, in order."""
    letters: tuple[str, ...] = ()
    note: str = ""
    """Why it cannot be timed; empty when it can."""
    failed: bool = False


@dataclass(frozen=True)
class VerifyJob:
    """One verification of one package."""

    folder: str
    """Where answers go."""
    path: str
    """Folder to import from; empty: as the environment has it."""
    package: str
    """Import name."""
    against: str
    """``host``, or a file's absolute path."""
    functions: tuple[str, ...]
    """Full names of the functions to check, in order."""
    first: int = 0
    """Number of the first one to check: those before have been."""
    dims: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    where: str = ""
    """``cpu`` or ``gpu``; empty: both."""
    mode: str = CHECK
    sizes: tuple[Sizes, ...] = ()
    """In mode ``TIME``, one for each function; in modes ``TRY`` and ``RACE``, one for all."""
    seconds: float = 0.0
    """That a race may take, about."""


@dataclass(frozen=True)
class Row:
    """One call that was compared, or why it was not."""

    function: str
    shapes: str
    """``x[7,11] y[11]``."""
    place: str
    """``cpu`` or ``gpu``."""
    against: str
    """``cpu``, or the file's name."""
    ok: bool
    value: str = ""
    """Which result or argument has the largest error."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulps: float = 0.0
    share: float = 0.0
    """Largest error as a share of what is tolerated."""
    where: str = ""
    note: str = ""
    """What is wrong, or why nothing was compared."""
    compared: bool = True
    refused: bool = False
    """The function itself refuses the shape."""


@dataclass(frozen=True)
class TimedRow:
    """Times of one function in one place."""

    function: str
    shapes: str = "-"
    place: str = "-"
    cold_s: float | None = None
    """Seconds of the first call; None when there was none."""
    median_s: float | None = None
    best_s: float | None = None
    spread: float | None = None
    """Distance of the quartiles, as a share of the median."""
    gigabytes_s: float | None = None
    """None where the manifest does not say how much is moved."""
    gigaflops_s: float | None = None
    copy_share: float | None = None
    """Bytes per second as a share of what a copy reaches."""
    note: str = ""
    failed: bool = False


@dataclass(frozen=True)
class TimedReport:
    """All times of one function."""

    rows: tuple[TimedRow, ...]


@dataclass(frozen=True)
class Tried:
    """Whether a function may take part in a race."""

    note: str = ""
    """Why not."""
    seconds: float = 0.0
    """Of a call, from few calls."""


@dataclass(frozen=True)
class Rounds:
    """A race."""

    seconds: tuple[tuple[float, ...], ...]
    """Per call: for each round those of all functions, in their order."""


@dataclass(frozen=True)
class Bandwidths:
    """Measured copies, in bytes per second."""

    cpu: float | None
    gpu: float | None


@dataclass(frozen=True)
class FunctionReport:
    """All about one function."""

    function: str
    signature: str
    """With letters for dynamic dimensions."""
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Failed:
    """Why the job is not possible."""

    kind: str
    """Class of the error."""
    message: str
    hint: str = ""


def write(folder: Path, name: str, value: object) -> None:
    """One more file of answers."""
    fileset.write_file(folder / name, codec.encode(value))


def started(folder: Path, number: int) -> None:
    """Tells that a function is being called: if the process dies now, it was this one."""
    fileset.write_file(folder / f"{number}.started", b"")


def lost(folder: Path, number: int, reason: str) -> None:
    """Tells that a function left the GPU in a state in which nothing more can be called."""
    fileset.write_file(folder / f"{number}.lost", reason.encode())


def lost_by(folder: Path, number: int) -> str:
    """How a function did that; empty when it did not."""
    path = folder / f"{number}.lost"
    return fileset.read_file(path).decode() if path.is_file() else ""


def take_turn(folder: Path, number: int, step: str) -> None:
    """Tells whose turn it is in a race, and in which step of it."""
    fileset.write_file(folder / TURN, f"{number} {step}".encode())


def turn(folder: Path) -> str:
    """What ``take_turn`` told last; empty before."""
    path = folder / TURN
    return fileset.read_file(path).decode() if path.is_file() else ""


def was_started(folder: Path, number: int) -> bool:
    """Whether the process came as far as calling this function."""
    return (folder / f"{number}.started").is_file()


def has_report(folder: Path, number: int) -> bool:
    """Whether it came back from it."""
    return (folder / f"{number}.json").is_file()


def read_report(folder: Path, number: int, kind: type[Report]) -> Report | None:
    """What was found out about a function; None when the process did not come so far."""
    path = folder / f"{number}.json"
    return codec.decode(fileset.read_file(path), kind) if path.is_file() else None


def write_failure(folder: Path, error: AotError) -> None:
    """Tells the parent why the whole job is not possible."""
    write(folder, FAILURE, Failed(type(error).__name__, error.message, error.hint))


def raise_failure(folder: Path) -> None:
    """Raises the error that ended the process, if one did."""
    path = folder / FAILURE
    if path.is_file():
        failed = codec.decode(fileset.read_file(path), Failed)
        raise getattr(errors, failed.kind, AotError)(failed.message, hint=failed.hint)
