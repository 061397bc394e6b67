"""``aot verify``: does a built package compute what it should?

In: a package and what to compare with. Out: Verified: a row per call, as a table or JSON.

>>> verify(VerifyRequest("dist/demo.whl", against="references.py")).ok           # doctest: +SKIP
True
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from aot import driver
from aot.engine import scratch
from aot.errors import UsageError
from aot.reporting.report import number
from aot.verifying import children, options
from aot.verifying.installed import Installed, installed
from aot.verifying.job import FunctionReport, Row, VerifyJob
from aot.verifying.signature import Signature, signatures

HOST = "host"
COLUMNS = ("function", "shapes", "on", "max abs", "max rel", "ulps", "of tolerance", "where", "ok")


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify."""

    package: str
    """A wheel, a folder, or the name of an installed package."""
    functions: tuple[str, ...] = ()
    """Names; empty: all."""
    dims: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    seed: int = 0
    against: str | None = None
    """``host``, a file; None: host where there is a GPU."""
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Verified:
    """What was found."""

    package: str
    version: str
    gpu: str
    """Name of the GPU; empty when there is none."""
    reports: tuple[FunctionReport, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for report in self.reports for row in report.rows)

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    def as_json(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "ok": self.ok}


def verify(request: VerifyRequest) -> Verified:
    """Installs the package in a scratch folder if it must, calls it in a process of its own, and compares."""
    options.extents(request.dims)
    options.ranges(request.ranges)
    with scratch.folder("verify") as place:
        found = installed(request.package, place / "package")
        gpu = next((device.name for device in driver.ask().devices), "")
        chosen = chosen_functions(found, request.functions)
        check_code(found, chosen, on_gpu=bool(gpu))
        if not gpu and request.against in (None, HOST):
            raise UsageError(
                "there is no GPU here, so there is nothing to compare the CPU code with",
                hint="give a reference: --against FILE.py with functions named as the package's, or FILE.npz",
            )
        todo = VerifyJob(
            folder=str(place / "answers"),
            path=found.path,
            package=found.package,
            against=_against(request.against),
            functions=tuple(each.full_name for each in chosen),
            dims=request.dims,
            ranges=request.ranges,
            seed=request.seed,
            rtol=request.rtol,
            atol=request.atol,
        )
        check_names(todo, chosen)
        reports = tuple(children.run(todo, chosen, FunctionReport, _died))
        verified = Verified(found.package, found.manifest["version"], gpu, reports)
    if not any(row.note and not row.ok and not row.compared for row in verified.rows):
        # Letters of a function that found no extents, or died, are not known.
        check_letters(request.dims, {letter for report in verified.reports for letter in _letters(report.signature)})
    if not any(row.compared or not row.ok for row in verified.rows):
        reasons = "\n".join(f"  {row.function}: {row.note}" for row in verified.rows)
        raise UsageError(f"nothing could be compared:\n{reasons}")
    return verified


def _against(asked: str | None) -> str:
    if asked is None or asked == HOST:
        return HOST
    if not Path(asked).is_file():
        what = "is no file" if Path(asked).exists() else "does not exist"
        raise UsageError(f"--against: '{asked}' {what}", hint="name a .py or .npz file, or host")
    return os.path.abspath(asked)


def chosen_functions(found: Installed, names: Sequence[str]) -> tuple[Signature, ...]:
    """The functions of these names (``softmax`` or ``softmax.softmax``); all when there are none."""
    known = signatures(found.manifest)
    if not names:
        return known
    chosen = []
    for name in names:
        fits = [each for each in known if name in (each.name, each.full_name)]
        if not fits:
            near = difflib.get_close_matches(name, [each.full_name for each in known], 3, 0.3)
            raise UsageError(
                f"no function '{name}' in {found.package}",
                hint=f"did you mean {' or '.join(near)}?" if near else "`aot inspect` lists them",
            )
        chosen += fits
    return tuple(chosen)


def check_code(found: Installed, chosen: Sequence[Signature], *, on_gpu: bool) -> None:
    """UsageError where no function has code for what is here."""
    if on_gpu or any(each.cpu for each in chosen):
        return
    names = ", ".join(each.full_name for each in chosen[:3]) + (", …" if len(chosen) > 3 else "")
    raise UsageError(
        f"nothing of {found.package} can run here: there is no GPU, and no CPU code of {names}",
        hint="run this on a machine with a GPU (`aot doctor` says what is missing), or build for the CPU, too: "
        "`--archs …,host` gives tensor-level functions CPU code",
    )


def check_names(todo: VerifyJob, chosen: Sequence[Signature]) -> None:
    """--dims and --range name something that exists."""
    arguments = {parameter.name for each in chosen for parameter in each.parameters}
    arguments |= {f"{each.full_name}.{parameter.name}" for each in chosen for parameter in each.parameters}
    unknown = [name for name in options.ranges(todo.ranges) if name not in arguments]
    if unknown:
        raise UsageError(f"--range: no function has an argument '{unknown[0]}'")
    dims = {each.dim_name(dim) for each in chosen for dim in each.dims()}
    wrong = [name for name in options.extents(todo.dims) if "." in name and name not in dims]
    if wrong:
        raise UsageError(
            f"--dims: no function has a dynamic dimension '{wrong[0]}'",
            hint=f"dynamic dimensions are {', '.join(sorted(dims)) or 'none'}",
        )


def check_letters(dims: Sequence[str], known: Set[str]) -> None:
    """The names without an axis in --dims are letters of some function."""
    unknown = [name for name in options.extents(dims) if "." not in name and name not in known]
    if unknown:
        raise UsageError(
            f"--dims: no function has a dimension '{unknown[0]}'",
            hint=f"letters here are {', '.join(sorted(known)) or 'none'}; or name argument and axis, as in x.0=64",
        )


def _letters(signature: str) -> list[str]:
    """``m`` and ``n`` of ``f(x[m,n,4])``."""
    return [word for inside in re.findall(r"\[([^\]]*)\]", signature) for word in inside.split(",") if word.isalnum()]


def _died(signature: Signature, note: str) -> FunctionReport:
    row = Row(signature.full_name, "-", "-", "-", ok=False, note=note, compared=False)
    return FunctionReport(signature.full_name, signature.text({}), (row,))


def table(found: Verified) -> list[list[str]]:
    """Rows of the table for COLUMNS."""
    return [_cells(row) for row in found.rows]


def _cells(row: Row) -> list[str]:
    if not row.compared:
        return [row.function, row.shapes, row.place, *["-"] * 5, "-" if row.ok else "NO"]
    numbers = [f"{row.max_abs:.3g}", f"{row.max_rel:.3g}", f"{row.max_ulps:.3g}", share(row.share)]
    where = f"{row.value}[{row.where}]" if row.where else "-"
    return [row.function, row.shapes, row.place, *numbers, where, "yes" if row.ok else "NO"]


def share(value: float) -> str:
    """A share of what is tolerated, in a few letters."""
    return f"{value:.0%}" if value < 10 else "> 1000%"


def remarks(found: Verified) -> list[str]:
    """Why rows are wrong, or were not compared, for which the table has no room; the same of several calls once."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        if row.note:
            alike.setdefault((row.function, row.note), []).append(row.shapes)
    return [
        f"{function} {calls[0]}{f' (and {len(calls) - 1} more)' if len(calls) > 1 else ''}: {note}"
        for (function, note), calls in alike.items()
    ]


def verdict(found: Verified) -> str:
    """One line."""
    rows = [row for row in found.rows if row.compared]
    wrong = [row for row in rows if not row.ok]
    called = f"{number(len({row.function for row in rows}), 'function')}, {number(len(rows), 'comparison')}"
    where = f"on {found.gpu} and the CPU" if found.gpu else "on the CPU (no GPU here)"
    text = f"{found.package} {found.version}: {called} {where}"
    failed = [row for row in found.rows if not row.ok and not row.compared]
    parts = [
        f"{len(some)} {word}: {', '.join(sorted({row.function for row in some}))}"
        for some, word in ((wrong, "wrong"), (failed, "failed"))
        if some
    ]
    return f"{text}: {'; '.join(parts) or 'all agree'}"
