"""Runs the programs of a built package on the GPU and compares what they print: `python run.py RECORD.json [NAME...]`.

In: the JSON that build.py wrote; the package must be importable (AOT_TEST_SITE names its folder).
Out: a Markdown table on standard output, exit code 1 when a program fails. Each program is called
in a process of its own, from Python, with a time limit.

>>> main(["out/upstream_gpu.json"])   # doctest: +SKIP
0
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from check_lines import Directive, problem

LIMIT_S = 40
CALL = "import importlib, sys; sys.path[:0] = {site!r}; getattr(importlib.import_module({module!r}), {entry!r})()"


@dataclass(frozen=True)
class Outcome:
    """What became of one program."""

    path: str
    result: str
    """``pass``, ``FAIL``, ``does not build``, ``TIMEOUT``."""
    remark: str
    seconds: float


def main(arguments: list[str]) -> int:
    record = json.loads(Path(arguments[0]).read_text())
    chosen = [p for p in record["programs"] if not arguments[1:] or any(name in p["name"] for name in arguments[1:])]
    outcomes = [run(record["package"], program) for program in chosen]
    print("| file | result | remark | s |\n|---|---|---|---|")
    for one in outcomes:
        print(f"| {one.path} | {one.result} | {one.remark} | {one.seconds:.1f} |")
    passed = sum(one.result == "pass" for one in outcomes)
    print(f"\n{passed} of {len(outcomes)} programs pass.")
    for path, reason in record["others"]:
        print(f"Not a program: {path} ({reason}).")
    return 0 if passed == len(outcomes) else 1


def run(package: str, program: Mapping[str, Any]) -> Outcome:
    """Calls the program's entry in a new process and checks its output."""
    if program["failure"]:
        return Outcome(program["path"], "does not build", _one_line(program["failure"]), 0.0)
    site = [os.environ["AOT_TEST_SITE"]] if os.environ.get("AOT_TEST_SITE") else []
    code = CALL.format(site=site, module=f"{package}.{program['name']}", entry=program["entry"])
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return Outcome(program["path"], "TIMEOUT", f"no end after {LIMIT_S} s", time.monotonic() - start)
    return judge(program, done, time.monotonic() - start)


def judge(program: Mapping[str, Any], done: subprocess.CompletedProcess[bytes], seconds: float) -> Outcome:
    """A program with CHECK lines is judged by them alone (a kernel's assert ends in an error, as upstream expects)."""
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    checks = [Directive(**directive) for directive in program["checks"]]
    wrong = problem(checks, out + err if program["merged_streams"] else out)
    ended = f"exit {done.returncode}" + (f": {_one_line(err)}" if err.strip() else "")
    if wrong:
        return Outcome(program["path"], "FAIL", f"{_one_line(wrong)}; {ended}", seconds)
    if done.returncode and not program["merged_streams"]:
        return Outcome(program["path"], "FAIL", ended, seconds)
    return Outcome(program["path"], "pass", "" if checks else "no CHECK lines: it ended", seconds)


def _one_line(text: str, width: int = 160) -> str:
    """The last line, or the start of a single one, safe inside a table."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].replace("|", "\\|")[:width] if lines else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
