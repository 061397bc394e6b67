"""What one call costs: ours, a bare launch, and everybody else's way from Python to a kernel, in one run on a GPU.

    python benchmarks/call.py [--site FOLDER] [--rounds N] [--warm N] [--only ROW...] [--json FILE]

The package ``call_bench`` is built from ``benchmarks/call_kernels`` (``aot build benchmarks/call_kernels --name
call_bench``); ``--site`` is a folder that holds it, and tvm-ffi where it is not installed. All arrays are torch's, of
256 floats. The rows take turns, 200 calls each after ``--warm`` that do not count, since the processor has just done
something else, and the device is empty when a turn begins; the table has the medians of the enqueueing time of one call
in microseconds, and their ratio to the bare launch. A row that is missing says why.

``bare`` is a C loop of cuLaunchKernel with one pointer per array; ``bare, our parameters`` the same with as many
parameters as our kernel has. ``made`` has a result that torch allocates.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
CALLS = 200


def measure(
    rows: Mapping[str, Callable[[int], float]], rounds: int, warm: int, wait: Callable[[], None]
) -> dict[str, float]:
    """Median microseconds of a call, by row; the rows take turns."""
    found: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 1):
        for name, row in rows.items():
            wait()
            row(warm)
            seconds = row(CALLS)
            if turn:
                found[name].append(seconds / CALLS * 1e6)
    wait()
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows beside the bare launch; all, when not given")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, help="a folder for call_bare.c's library, libbare.so, or with it")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), *([str(options.site)] if options.site else [])]
    contenders = importlib.import_module("call_rows")
    torch = importlib.import_module("torch")
    package = importlib.import_module("call_bench")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    print("us per call, and times the bare launch")
    table: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = contenders.Library((options.work or Path(folder)).resolve())
        for case in contenders.CASES:
            rows, missing = contenders.rows(case, package, library, options.only)
            table[case.title] = measure(rows, options.rounds, options.warm, torch.cuda.synchronize)
            print(f"\n{case.title}")
            bare = table[case.title]["bare"]
            for name, time in table[case.title].items():
                print(f"  {name:24} {time:7.2f}  x {time / bare:5.2f}", flush=True)
            for name, reason in missing.items():
                print(f"  {name:24}    -     {reason}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
