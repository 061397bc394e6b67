"""Prints what the demo package costs: `python measure.py`, with AOT_TEST_SITE naming the installed packages.

Import beside a bare Python, loading all kernels (`preload()`), the first call of some functions after that, and the
time of later calls; each in new processes, the median of several. Exit code 1 when the import takes more than
IMPORT_MS or brings NumPy, or a first call more than FIRST_CALL_MS.

>>> main()   # doctest: +SKIP
0
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

IMPORT_MS = 5.0
FIRST_CALL_MS = 1.0
REPEATS = 5

IMPORT = """
import sys, time
start = time.perf_counter()
import demo_kernels
print(1e3 * (time.perf_counter() - start))
assert "numpy" not in sys.modules
"""

FIRST_CALL = """
import time, torch, demo_kernels as k
x = torch.randn(4, 8, device="cuda")
y = x + x
torch.cuda.synchronize()
def cost(call):
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)
print(cost(k.preload), cost(lambda: k.{call}))
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


def milliseconds(script: str) -> list[float]:
    """Medians of the numbers in the last line that a script prints."""
    runs = [map(float, python("-c", script).stdout.splitlines()[-1].split()) for _ in range(REPEATS)]
    return [statistics.median(numbers) for numbers in zip(*runs, strict=True)]


def main() -> int:
    (imports,) = milliseconds(IMPORT)
    print(f"import of demo_kernels: {imports:.2f} ms")
    worst = 0.0
    for call in ("gelu.gelu(x.view(-1))", "softmax.softmax(x)", "hello.hello()"):
        loading, first = milliseconds(FIRST_CALL.format(call=call))
        print(f"first call of {call}: {first:.3f} ms after preload(), which takes {loading:.1f} ms")
        worst = max(worst, first)
    times = python("-c", LATER_CALLS).stdout.split()
    for name, time in zip(LATER_NAMES, times, strict=True):
        print(f"one call of {name}: {float(time):.2f} µs")
    return 0 if imports <= IMPORT_MS and worst <= FIRST_CALL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
