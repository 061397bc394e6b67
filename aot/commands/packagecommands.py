"""The commands that run built packages: ``aot verify``, ``demo``, ``bench`` and ``tune``; ``aot.cli`` has the others.

In: options. Out: tables on standard output, remarks and verdicts on standard error; exit code 1 for what is wrong.

>>> [command.name for command in (verify, demo, bench, tune)]
['verify', 'demo', 'bench', 'tune']
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aot import fileset
from aot.commands.clickgroup import Command
from aot.reporting import report

if TYPE_CHECKING:
    from aot.commands.verify import Verified


class _Finite(click.FloatRange):
    """A number: a range of click's has nothing against NaN, nor, without an upper end, against infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


_JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Show the result only.")
_JOBS = click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Sources compiled at a time. Default: MAX_JOBS, else CPUs."
)
_CALLS = (
    click.option("--function", "functions", multiple=True, metavar="NAME", help="Only this one; may be repeated."),
    click.option("--dims", multiple=True, metavar="m=64,x.1=128", help="Extents, by letter or by argument and axis."),
    click.option("--range", "ranges", multiple=True, metavar="ids=0:n", help="Where an argument's values lie."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed, other values."),
)


def _calls(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of commands that call a package's functions: which ones, and with what."""
    for option in reversed(_CALLS):
        command = option(command)
    return command


@click.command(cls=Command)
@click.argument("package", metavar="WHEEL|PACKAGE")
@_calls
@click.option("--against", metavar="host|FILE.py|FILE.npz", help="What GPU results must agree with.  [default: host]")
@click.option("--rtol", type=_Finite(0), help="Relative tolerance. Default: by type and length of sums.")
@click.option("--atol", type=_Finite(0), help="Absolute tolerance. Default: by type and length of sums.")
@_JSON
def verify(package: str, as_json: bool, **options: Any) -> None:
    """Check a package's results.

    Calls every function and compares: GPU with CPU code, or either with a reference.
    """
    from aot.commands import verify as verifier

    found = verifier.verify(verifier.VerifyRequest(package, **options))
    if as_json:
        _print_json(found.as_json())
    else:
        _show_verified(found)
    raise click.exceptions.Exit(0 if found.ok else 1)


def _show_verified(found: Verified) -> None:
    from aot.commands import verify as verifier

    report.table("", verifier.COLUMNS, verifier.table(found))
    for remark in verifier.remarks(found):
        report.say(remark)
    report.say(verifier.verdict(found))


@click.command(cls=Command)
@click.option("--archs", metavar="LIST", help="What to build for.  [default: sm_80,sm_90,host]")
@click.option("--keep", metavar="DIR", help="Keep the wheel there.")
@_JOBS
@_QUIET
@_JSON
def demo(archs: str | None, keep: str | None, jobs: int | None, quiet: bool, as_json: bool) -> None:
    """Build and check the examples.

    Installs them in a scratch folder, and calls them on the GPU, if any, and the CPU.
    """
    from aot.commands import demo as demonstration

    reporter = report.reporter(quiet=quiet, verbose=False)
    try:
        request = demonstration.DemoRequest(archs or demonstration.ARCHS, keep, jobs)
        done = demonstration.demo(request, reporter)
    finally:
        reporter.close()
    if as_json:
        _print_json(done.as_json())
    else:
        report.table("", demonstration.COLUMNS, demonstration.table(done))
        for row in demonstration.wrong(done):
            report.say(f"{row.function} {row.shapes} on {row.place}: {row.note}")
        report.result(demonstration.verdict(done))
    raise click.exceptions.Exit(0 if done.verified.ok else 1)


@click.command(cls=Command)
@click.argument("package", metavar="WHEEL|PACKAGE")
@_calls
@click.option("--on", type=click.Choice(["cpu", "gpu"]), help="Time only there. Default: wherever functions run.")
@click.option("--plot", metavar="FILE.png|FILE.svg", help="Draw a bar chart.")
@_JSON
def bench(package: str, plot: str | None, as_json: bool, **options: Any) -> None:
    """Time a package's functions.

    All that run here: on the GPU, if any, and the CPU.
    """
    from aot.commands import bench as timer
    from aot.commands import chart

    form = chart.form_of(plot) if plot else ""
    found = timer.bench(timer.BenchRequest(package, **options))
    if plot:
        fileset.write_file(Path(plot), chart.draw(found, form))
    if as_json:
        _print_json(found.as_json())
    else:
        report.table("", timer.COLUMNS, timer.table(found))
        for remark in timer.remarks(found):
            report.say(remark)
        report.say(timer.verdict(found))
    raise click.exceptions.Exit(0 if found.ok else 1)


@click.command(cls=Command)
@click.argument("sources", metavar="SRC...", nargs=-1, required=True)
@_calls
@_JOBS
@click.option("--budget", type=_Finite(1), default=600, show_default=True, help="Seconds for all of it, about.")
@click.option("--list", "listed", is_flag=True, help="Show candidates and measure nothing; needs no GPU.")
@click.option("--archs", metavar="ARCH", help="Whose candidates --list shows.  [default: native]")
@click.option("--dry-run", is_flag=True, help="Measure, but write nothing.")
@_QUIET
@_JSON
def tune(listed: bool, dry_run: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Find the fastest schedules on this GPU.

    Measures schedules and sizes of functions, and keeps the fastest for `aot build`.
    """
    from aot.tuning import tune as tuner
    from aot.tuning.tunechoice import TuneRequest

    request = TuneRequest(**options)
    reporter = report.reporter(quiet=quiet, verbose=False)
    try:
        found = (tuner.offer if listed else tuner.tune)(request, reporter)
    finally:
        reporter.close()
    if as_json:
        _print_json(found.as_json())
    else:
        report.table("", *(tuner.offered(found.rows) if listed else tuner.timed(found.rows)))
        report.say(tuner.verdict(found))
    if not (listed or dry_run):
        report.say(f"wrote {tuner.write(found, request)}")


def _print_json(document: object) -> None:
    """In ASCII, so that every terminal and program can take it."""
    report.result(json.dumps(document, indent=2))
