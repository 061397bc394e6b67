"""The command line: reads options, calls, prints; ``main`` is the one place where errors are shown.

Messages and progress go to standard error, results to standard output; ``--json`` prints one
document. Exit codes: 0 done, 1 the build or a check failed, 2 wrong use, 3 a tool is missing,
130 interrupted, 70 a bug of ours.

>>> main(["targets", "--json"])   # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from aot import __version__, fileset
from aot.commands import cachecommand
from aot.commands.clickgroup import Group
from aot.commands.packagecommands import bench, demo, tune, verify
from aot.errors import AotError, Interrupted
from aot.reporting import report
from aot.settings.configvalues import COMPRESS
from aot.settings.wishes import SCHEDULES

BUG = 70
"""Exit code of a bug of ours; the others are those of the errors."""
ISSUES = "the project's issue tracker"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="aot", message="%(prog)s %(version)s")
def cli() -> None:
    """Compiles MLIR ahead of time into an installable Python package of CUDA kernels."""


@cli.command()
@click.argument("sources", metavar="SRC...", nargs=-1, required=True)
@click.option(
    "--archs", metavar="LIST", help="sm_80,sm_90a or 8.0;9.0+PTX or such; host (CPU code), all-major, native."
)
@click.option("--name", help="Name of the package. Default: aot.toml's, else the folder's.")
@click.option("--version", help="Version of the package. Default: aot.toml's, else 0.1.0.")
@click.option("--out", default="dist", show_default=True, metavar="DIR", help="Where the wheel goes.")
@click.option("--work", default="build", show_default=True, metavar="DIR", help="Where intermediate files stay.")
@click.option("--sdist", is_flag=True, help="Also a source distribution, which needs only a C compiler.")
@click.option("--tvm-ffi", is_flag=True, help="The extension exports its functions to tvm-ffi, too.")
@click.option("--c", is_flag=True, help="Also a header and a static library, for C and C++ without Python.")
@click.option("--free-threaded", metavar="PYTHON", help="A wheel for this free-threaded Python, such as 3.13t.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Sources compiled at a time. Default: MAX_JOBS, else CPUs.")
@click.option("--ptx/--no-ptx", default=None, help="PTX of the highest architecture, for newer GPUs.  [default: ptx]")
@click.option("--compress", type=click.Choice(COMPRESS), help="Compression of the device code.  [default: none]")
@click.option("--schedules", type=click.Choice(SCHEDULES), help="general: soon built, slow to run.  [default: fast]")
@click.option("--lineinfo", is_flag=True, help="Machine code says which line of the source it comes from.")
@click.option("--split-archs", is_flag=True, help="A package for each generation of GPUs, and one in front of them.")
@click.option("--toolkit", metavar="DIR", help="CUDA toolkit to use instead of the one from PyPI.")
@click.option("--cuda", type=click.Choice(["12", "13"]), help="Major version of the toolchain from PyPI.")
@click.option("--dump", metavar="DIR", help="Keep the IR after each stage there.")
@click.option("--cache", metavar="DIR|off", help="Cache of compiled sources. Default: AOT_CACHE, else the user's.")
@click.option("--cache-remote", metavar="DIR|URL", help="A cache that machines share. Default: AOT_CACHE_REMOTE.")
@click.option("--executor", default="local", show_default=True, metavar="local|dask://HOST:PORT", help="Who compiles.")
@click.option("-v", "--verbose", is_flag=True, help="Show commands and what the compilers say.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors and the wheel's path only.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def build(
    sources: tuple[str, ...],
    verbose: bool,
    quiet: bool,
    as_json: bool,
    cuda: str | None,
    split_archs: bool,
    **options: Any,
) -> None:
    """Build a wheel from *.mlir and *.mlirbc files, or folders of them."""
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    if options["toolkit"] and cuda:
        raise click.UsageError("--toolkit and --cuda exclude each other")
    from aot.request import BuildRequest

    shown = importlib.import_module("aot.split" if split_archs else "aot.pipeline")
    request = BuildRequest(sources, cuda=int(cuda) if cuda else None, **options)
    reporter = report.reporter(quiet=quiet, verbose=verbose)
    built: Any
    try:
        built = shown.build(request, reporter)
    finally:
        reporter.close()
    if as_json:
        print_json(shown.as_json(built))
        return
    if not quiet:
        report.say(shown.summary(built))
    for each in built.parts if split_archs else ():
        report.result(_near(each.wheel))
    for each in () if split_archs else (*built.c_files, *filter(None, [built.sdist])):
        report.result(_near(each))
    report.result(_near(built.wheel))


@cli.command()
@click.argument("package", metavar="WHEEL|DIR|SO")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
@click.option("--ptx", metavar="KERNEL", help="Print a kernel's PTX.")
@click.option("--sass", metavar="KERNEL", help="Print a kernel's machine code.")
@click.option("--arch", metavar="ARCH", help="Of which image --sass prints. Default: the first with the kernel.")
def inspect(package: str, as_json: bool, ptx: str | None, sass: str | None, arch: str | None) -> None:
    """Show what is in a package.

    Functions, kernels, registers, sizes, architectures.
    """
    if sum(map(bool, (as_json, ptx, sass))) > 1:
        raise click.UsageError("--json, --ptx and --sass exclude each other")
    if arch and not sass:
        raise click.UsageError("--arch goes with --sass")
    from aot.commands import inspection

    if ptx:
        report.result(inspection.ptx_text(package, ptx))
    elif sass:
        report.result(inspection.sass_text(package, sass, arch))
    elif as_json:
        print_json(inspection.inspect(package).as_json())
    else:
        report.result(inspection.text(inspection.inspect(package)))


@cli.command()
@click.option("--toolkit", metavar="DIR", help="CUDA toolkit to use instead of the one from PyPI.")
@click.option("--cuda", type=click.Choice(["12", "13"]), help="Major version of the toolchain from PyPI.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def targets(toolkit: str | None, cuda: str | None, as_json: bool) -> None:
    """List the architectures that this toolchain can build."""
    from aot.commands import doctor

    found = doctor.targets(toolkit, int(cuda) if cuda else None)
    if as_json:
        print_json(found.as_json())
    else:
        report.table(f"{found.title}\n{found.legend}", found.columns, found.rows)


@cli.command()
@click.option("--toolkit", metavar="DIR", help="CUDA toolkit to use instead of the one from PyPI.")
@click.option("--cuda", type=click.Choice(["12", "13"]), help="Major version of the toolchain from PyPI.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def doctor(toolkit: str | None, cuda: str | None, as_json: bool) -> None:
    """Say what is missing here.

    Looks for all that building and running need, and says what to do about it.
    """
    from aot.commands import doctor as doctors

    found = doctors.examine(toolkit, int(cuda) if cuda else None)
    if as_json:
        print_json(found.as_json())
    else:
        report.result(found.text())
    raise click.exceptions.Exit(found.exit_code)


@cli.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a folder NAME with a working kernel to start from."""
    from aot.commands import scaffold

    folder = scaffold.create(name)
    named = f"./{folder}" if str(folder).startswith("-") else str(folder)
    report.say(f"made '{folder}'; build it with: aot build {shlex.quote(named)}")
    report.result(str(folder))


for _command in (verify, demo, bench, tune, cachecommand.cache):
    cli.add_command(_command)


def _near(path: Path) -> str:
    """A path as seen from here, when it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def print_json(document: object) -> None:
    """One document, in ASCII, so that every terminal and program can take it."""
    report.result(json.dumps(document, indent=2))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command line and ends the process."""
    _open_standard_files()
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # else nohup lets a build outlive its terminal
        signal.signal(signal.SIGHUP, _stop)
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; the exit code."""
    try:
        code = cli.main(args=None if arguments is None else list(arguments), prog_name="aot", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _show(Interrupted("interrupted"))
    except AotError as error:
        return _show(error)
    except BrokenPipeError:
        # The reader of our output has gone; keep Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        trouble = fileset.trouble(error) if isinstance(error, OSError) else None
        if trouble is not None:
            return _show(trouble)
        report.say(_bug_text(error))
        return BUG


def _open_standard_files() -> None:
    """Those that are closed lead nowhere: what is opened next would have their numbers, and get what programs say."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _stop(number: int, frame: object) -> None:
    """A polite kill, or a terminal that goes, ends a build as Ctrl-C does: with its children, nothing half-written."""
    raise KeyboardInterrupt


def _show(error: AotError) -> int:
    report.say(f"error: {error.text()}")
    return error.exit_code


def _show_usage(error: click.ClickException) -> None:
    context, message = getattr(error, "ctx", None), error.format_message()
    if message.startswith("Usage:"):
        # A group without a command: the message is its help.
        report.say(message)
        return
    if context is not None:
        report.say(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
    report.say(f"error: {message}")


def _bug_text(error: Exception) -> str:
    """The traceback of a bug of ours (a worker's travels in its ``traceback``), and what to do with it."""
    inner = getattr(error, "traceback_text", "")
    outer = "".join(traceback.format_exception(error))
    return (
        f"{inner or outer}\n"
        f"error: this is a bug in aot {__version__} (Python {platform.python_version()}, {platform.platform()}).\n"
        f"Please report it to {ISSUES}, with the text above and the source that was being built."
    )
