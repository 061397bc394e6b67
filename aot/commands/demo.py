"""``aot demo``: builds the examples, installs the wheel in a scratch folder, calls everything and compares with NumPy.

In: a few options. Out: Demo: what was built, what ran where, and whether it was right. Runs on a GPU when there is
one, and always on the CPU.

>>> demo(DemoRequest()).verified.ok                                              # doctest: +SKIP
True
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aot import fileset, pipeline, resources
from aot.commands import verify
from aot.commands.verify import Verified
from aot.engine import scratch
from aot.reporting.report import Reporter, Silent
from aot.verifying.job import FunctionReport, Row

ARCHS = "sm_80,sm_90,host"
"""PTX for sm_90 comes along, so that newer GPUs run it, too."""
COLUMNS = ("function", "ran on", "calls", "max abs error", "of tolerance", "ok")


@dataclass(frozen=True)
class DemoRequest:
    """What a demonstration may be told."""

    archs: str = ARCHS
    keep: str | None = None
    """Folder for the wheel; None: it is thrown away."""
    jobs: int | None = None


@dataclass(frozen=True)
class Demo:
    """What happened."""

    wheel: str
    """Its name; its path when it is kept."""
    wheel_bytes: int
    seconds: float
    """What building took."""
    verified: Verified

    def as_json(self) -> dict[str, object]:
        built = {"wheel": self.wheel, "wheel_bytes": self.wheel_bytes, "seconds": self.seconds}
        return {**built, **self.verified.as_json()}


def demo(request: DemoRequest, reporter: Reporter | None = None) -> Demo:
    """Builds, installs, runs and compares."""
    tell = reporter or Silent()
    if request.keep:
        fileset.check_writable(Path(request.keep).absolute())
    examples = resources.examples()
    with scratch.folder("demo") as place:
        build = pipeline.BuildRequest(
            (str(examples / "kernels"),),
            archs=request.archs,
            out=str(place / "dist"),
            work=str(place / "build"),
            jobs=request.jobs,
        )
        built = pipeline.build(build, tell)
        kept = fileset.publish(built.wheel, Path(request.keep)) if request.keep else Path(built.wheel.name)
        tell.stage(f"calling every function of {built.package} and comparing with NumPy")
        verified = verify.verify(verify.VerifyRequest(str(built.wheel), against=str(examples / "references.py")))
    return Demo(str(kept), built.wheel_bytes, built.seconds, verified)


def table(done: Demo) -> list[list[str]]:
    """One row per function, for COLUMNS."""
    return [_cells(report) for report in done.verified.reports]


def _cells(report: FunctionReport) -> list[str]:
    ran = [row for row in report.rows if row.place != "-"]
    if not ran:
        return [
            report.function,
            "needs a GPU" if _waits_for_gpu(report) else "-",
            "0",
            "-",
            "-",
            "-" if _ok(report) else "NO",
        ]
    compared = [row for row in ran if row.compared]
    errors = (
        [f"{max(row.max_abs for row in compared):.2g}", verify.share(max(row.share for row in compared))]
        if compared
        else []
    )
    return [
        report.function,
        " ".join(sorted({row.place for row in ran})),
        str(len(ran)),
        *(errors or ["-", "-"]),
        "yes" if _ok(report) else "NO",
    ]


def _ok(report: FunctionReport) -> bool:
    return all(row.ok for row in report.rows)


def _waits_for_gpu(report: FunctionReport) -> bool:
    return any("no GPU here" in row.note for row in report.rows)


def wrong(done: Demo) -> list[Row]:
    """The rows to explain."""
    return [row for row in done.verified.rows if not row.ok]


def verdict(done: Demo) -> str:
    """What ran where, in two lines."""
    built = f"built {done.wheel} in {done.seconds:.1f} s: {done.wheel_bytes} bytes"
    return f"{built}\n{verify.verdict(done.verified)}"
