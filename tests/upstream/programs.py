"""Upstream's integration programs: which there are in a folder, how they run, what they must print.

In: a folder of ``.mlir`` files (mlir/test/Integration/GPU/CUDA of LLVM, or .../Linalg/CPU).
Out: Programs, in order. A program is a file that its RUN lines execute; files that only test a
compiler's log are named with the reason. Each file becomes a namespace: its path inside the
folder, with ``_`` for what a Python name cannot hold.

>>> [p.name for p in find(Path("CUDA")).programs][:1]   # doctest: +SKIP
['TensorCore_sm80_transform_mma_sync_matmul_f16_f16_accum']
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from pathlib import Path

from check_lines import Directive, parse

ENTRY = re.compile(r"%\{entry_point\} = (\w+)|mlir-runner[^|]*? -e (\w+)")
RUN = re.compile(r"(?://|#)\s*(?:RUN|DEFINE):(.*)")
PREFIX = re.compile(r"FileCheck[^|]*--check-prefix(?:es)?[= ](\S+)")


@dataclass(frozen=True)
class Program:
    """One file that upstream runs."""

    name: str
    """Namespace in the package."""
    path: str
    """Inside the folder."""
    text: str
    entry: str
    """Function to call: ``main``, unless the RUN lines say otherwise."""
    checks: tuple[Directive, ...]
    """Empty: ending without an error is all that is asked."""
    archs: tuple[str, ...]
    """``("sm_90a",)`` for what lies below a folder ``sm90``; else empty: any."""
    min_arch: str
    merged_streams: bool
    """Standard error is compared too (``2>&1`` before FileCheck)."""


@dataclass(frozen=True)
class Found:
    """All programs of a folder, and the files that are none."""

    programs: tuple[Program, ...]
    others: tuple[tuple[str, str], ...]
    """(path, reason)."""


def find(folder: Path) -> Found:
    """Every ``.mlir`` file below the folder; those for other host machines are not looked at."""
    programs, others = [], []
    for file in sorted(folder.rglob("*.mlir")):
        path = file.relative_to(folder).as_posix()
        if path.startswith("Arm"):
            continue
        text = file.read_text()
        run = _run_lines(text)
        if "mlir-runner" not in run:
            others.append((path, "executes nothing: tests what the compiler prints"))
        elif "generate-runtime-verification" in run:
            others.append((path, "tests the messages of another pass, generate-runtime-verification"))
        else:
            programs.append(_program(path, text, run))
    return Found(tuple(programs), tuple(others))


def _run_lines(text: str) -> str:
    """The RUN (and DEFINE) lines as one line of text each command."""
    return " ".join(match[1].strip().removesuffix("\\") for match in RUN.finditer(text))


def _program(path: str, text: str, run: str) -> Program:
    executed = run[run.rfind("mlir-runner") :]
    prefix = PREFIX.search(executed)
    entry = ENTRY.search(run)
    below = path.split("/")
    return Program(
        name=_namespace(path),
        path=path,
        text=text,
        entry=next(filter(None, entry.groups())) if entry else "main",
        checks=parse(text, prefix[1] if prefix else "CHECK"),
        archs=("sm_90a",) if "sm90" in below else (),
        min_arch="sm_80" if "TensorCore" in below else "",
        merged_streams="2>&1" in executed,
    )


def _namespace(path: str) -> str:
    """``async.mlir`` is ``async_``: a keyword cannot be imported."""
    name = re.sub(r"\W", "_", path.removesuffix(".mlir"))
    return f"{name}_" if keyword.iskeyword(name) else name


def settings(package: str, programs: tuple[Program, ...]) -> str:
    """``aot.toml`` of a package of these programs."""
    lines = ["edition = 1", "", "[package]", f'name = "{package}"']
    for program in programs:
        limits = [f'archs = ["{program.archs[0]}"]'] if program.archs else []
        limits += [f'min-arch = "{program.min_arch}"'] if program.min_arch else []
        if limits:
            lines += ["", f"[source.{program.name}]", *limits]
    return "\n".join(lines) + "\n"
