"""``aot bench``: how fast are the functions of a built package?

In: a package and extents. Out: Benched: a row for each function and place, as a table, JSON or a bar chart. Bytes and
operations are those of the manifest's estimates; bytes per second are compared with a copy measured just before.

>>> bench(BenchRequest("dist/demo.whl", dims=("m=4096,n=512",))).rows[0].median_s    # doctest: +SKIP
1.9e-05
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aot import codec, driver, fileset
from aot.commands import verify
from aot.engine import scratch
from aot.errors import UsageError
from aot.reporting import buildnotes
from aot.verifying import children, job, options
from aot.verifying.installed import installed
from aot.verifying.job import Bandwidths, Sizes, TimedReport, TimedRow, VerifyJob
from aot.verifying.signature import Signature

COLUMNS = ("function", "shapes", "on", "cold", "median", "spread", "GB/s", "of a copy", "GFLOP/s")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class BenchRequest:
    """What to time."""

    package: str
    functions: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    seed: int = 0
    on: str | None = None
    """``cpu`` or ``gpu``; None: wherever the functions run."""


@dataclass(frozen=True)
class Benched:
    """The times."""

    package: str
    version: str
    gpu: str
    """Name of the GPU; empty when there is none."""
    copy_cpu: float | None
    """Bytes per second of a copy, read and written."""
    copy_gpu: float | None
    rows: tuple[TimedRow, ...]
    general: tuple[str, ...] = ()
    """What is to be known of sources whose fast schedules were off."""

    @property
    def ok(self) -> bool:
        """Whether everything that can run here did."""
        return not any(row.failed for row in self.rows)

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def bench(request: BenchRequest) -> Benched:
    """Times the functions in processes of their own; UsageError where none of them can run here."""
    options.extents(request.dims)
    options.ranges(request.ranges)
    gpu = next((device.name for device in driver.ask().devices), "")
    if request.on == "gpu" and not gpu:
        raise UsageError("--on gpu: there is no usable GPU here", hint="`aot doctor` says why; use --on cpu")
    with scratch.folder("bench") as place:
        found = installed(request.package, place / "package")
        chosen = verify.chosen_functions(found, request.functions)
        verify.check_code(found, chosen, on_gpu=bool(gpu))
        todo = VerifyJob(
            folder=str(place / "answers"),
            path=found.path,
            package=found.package,
            against=verify.HOST,
            functions=tuple(each.full_name for each in chosen),
            dims=request.dims,
            ranges=request.ranges,
            seed=request.seed,
            where=request.on or "",
            mode=job.SIZE,
        )
        verify.check_names(todo, chosen)
        sizes = tuple(children.run(todo, chosen, Sizes, lambda _, note: Sizes(note=note, failed=True)))
        if not any(each.failed for each in sizes):
            verify.check_letters(request.dims, {letter for each in sizes for letter in each.letters})
        # In a process that has called nothing yet: the first call is to be a cold one.
        todo = dataclasses.replace(todo, folder=str(place / "times"), mode=job.TIME, sizes=sizes)
        reports = children.run(todo, chosen, TimedReport, _died)
        measured = codec.decode(fileset.read_file(Path(todo.folder) / job.BANDWIDTHS), Bandwidths)
    rows = tuple(row for report in reports for row in report.rows)
    if not any(row.failed or row.median_s is not None for row in rows):
        reasons = "\n".join(f"  {row.function}: {row.note}" for row in rows)
        raise UsageError(f"nothing could be timed:\n{reasons}")
    general = tuple(buildnotes.slower_modules(found.manifest)) if gpu and request.on != "cpu" else ()
    return Benched(found.package, found.manifest["version"], gpu, measured.cpu, measured.gpu, rows, general)


def _died(signature: Signature, note: str) -> TimedReport:
    return TimedReport((TimedRow(signature.full_name, note=note, failed=True),))


def table(found: Benched) -> list[list[str]]:
    """Rows of the table for COLUMNS."""
    return [_cells(row) for row in found.rows if row.median_s is not None]


def _cells(row: TimedRow) -> list[str]:
    return [
        row.function,
        row.shapes,
        row.place,
        duration(row.cold_s),
        duration(row.median_s),
        _text(row.spread, "{:.0%}"),
        _text(row.gigabytes_s, "{:.3g}"),
        _text(row.copy_share, "{:.0%}"),
        _text(row.gigaflops_s, "{:.3g}"),
    ]


def remarks(found: Benched) -> list[str]:
    """Why functions have no times, and why kernels are slow."""
    return [*(f"{row.function}: {row.note}" for row in found.rows if row.note), *found.general]


def verdict(found: Benched) -> str:
    """What was measured where."""
    copies = [
        f"a copy reaches {speed / 1e9:.3g} GB/s on {name}"
        for name, speed in ((found.gpu, found.copy_gpu), ("the CPU (one thread)", found.copy_cpu))
        if speed is not None
    ]
    return f"{found.package} {found.version}: {', '.join(copies)}"


def duration(seconds: float | None) -> str:
    """``12.3 µs``."""
    if seconds is None:
        return "-"
    unit, name = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{seconds / unit:.3g} {name}"


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def charted(rows: Sequence[TimedRow]) -> list[TimedRow]:
    """The rows that a chart can show."""
    return [row for row in rows if row.gigabytes_s is not None]
