"""Prints what the demo package costs: `python measure.py`, with AOT_TEST_SITE naming the installed packages.

Own import time (`-X importtime`, the package's modules only), the first call of a small kernel on
top of context creation, and the time of later calls; each in new processes, the median of several.
Exit code 1 when import or first call takes more than LIMIT_MS.

>>> main()   # doctest: +SKIP
0
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys

LIMIT_MS = 5.0
REPEATS = 7
IMPORT_LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \|\s*(_?demo_kernels\S*)")

FIRST_CALL = """
import time, torch, demo_kernels as k
x = torch.randn(4, 8, device="cuda")
y = x + x
torch.cuda.synchronize()
start = time.perf_counter()
k.{call}
torch.cuda.synchronize()
print(1e3 * (time.perf_counter() - start))
"""

LATER_CALLS = """
import time, torch, demo_kernels as k
x, y, flat = torch.randn(4, 8, device="cuda"), torch.randn(8, 4, device="cuda"), torch.randn(256, device="cuda")
out = torch.empty(10, 10, device="cuda")
square = torch.randn(10, 10, device="cuda")
def cost(call, number=2000):
    for _ in range(200):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(number):
        call()
    end = time.perf_counter()
    torch.cuda.synchronize()
    return 1e6 * (end - start) / number
print(cost(lambda: k.square.square(square, out)), cost(lambda: torch.mul(square, square, out=out)),
      cost(lambda: k.gelu.gelu(flat)), cost(lambda: torch.nn.functional.gelu(flat)),
      cost(lambda: k.softmax.softmax(x)), cost(lambda: torch.softmax(x, 1)))
"""
LATER_NAMES = ("square(x, out)", "torch.mul(out=)", "gelu(x)", "torch gelu", "softmax(x), 4 kernels", "torch softmax")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    site = os.environ.get("AOT_TEST_SITE", "")
    path = os.pathsep.join(filter(None, [site, os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )


def import_ms() -> float:
    """Self time of the package's modules in one import, all of them together."""
    lines = IMPORT_LINE.findall(python("-X", "importtime", "-c", "import demo_kernels").stderr)
    return sum(int(own) for own, _, _ in lines) / 1e3


def main() -> int:
    imports = statistics.median(import_ms() for _ in range(REPEATS))
    print(f"import of demo_kernels: {imports:.2f} ms of its own")
    worst = imports
    for call in ("gelu.gelu(x.view(-1))", "softmax.softmax(x)", "hello.hello()"):
        script = FIRST_CALL.format(call=call)
        times = [float(python("-c", script).stdout.split()[-1]) for _ in range(REPEATS)]
        print(
            f"first call of {call}: {statistics.median(times):.2f} ms after context creation (worst {max(times):.2f})"
        )
        worst = max(worst, statistics.median(times))
    times = python("-c", LATER_CALLS).stdout.split()
    for name, time in zip(LATER_NAMES, times, strict=True):
        print(f"one call of {name}: {float(time):.2f} µs")
    return 0 if worst <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
