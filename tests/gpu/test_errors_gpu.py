"""Wrong calls and failing calls: one clear exception, nothing left behind, and the next call is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

WRONG = [
    ("too few", lambda k, t: k.vector_add.vector_add(t.ones(3, device="cuda")), TypeError, r"vector_add.*'?y'?"),
    ("too many", lambda k, t: k.gelu.gelu(*[t.ones(3, device="cuda")] * 2), TypeError, r"gelu"),
    ("unknown keyword", lambda k, t: k.gelu.gelu(t.ones(3, device="cuda"), scale=2), TypeError, r"scale"),
    ("element type", lambda k, t: k.gelu.gelu(t.ones(3, device="cuda").double()), TypeError, r"gelu.*f32.*f(loat)?64"),
    ("rank", lambda k, t: k.gelu.gelu(t.ones(3, 3, device="cuda")), (TypeError, ValueError), r"gelu.*tensor<\?xf32>"),
    ("static extent", lambda k, t: k.square.square(*[t.ones(10, 9, device="cuda")] * 2),
     (TypeError, ValueError), r"10x10"),
    ("extents", lambda k, t: k.layernorm.layernorm(*(t.ones(n, device="cuda") for n in ((4, 5), 7, 5)), 1e-5),
     ValueError, r"layernorm\.layernorm\(\): extent 0 of 'gamma' \(7\) is not extent 1 of 'x' \(5\)"),
    ("host array", lambda k, t: k.gelu.gelu(t.ones(3)), (TypeError, ValueError), r"gelu.*(CPU|cpu|host)"),
    ("not an array", lambda k, t: k.gelu.gelu("three"), TypeError, r"gelu.*str"),
    ("transposed", lambda k, t: k.softmax.softmax(t.ones(3, 4, device="cuda").t()),
     (TypeError, ValueError), r"softmax.*(stride|contiguous)"),
    ("number out of range", lambda k, t: k.launch_func.times4(2**31, t.zeros(2, device="cuda", dtype=t.int32)),
     (OverflowError, ValueError), r"times4.*i32"),
    ("number of another kind", lambda k, t: k.launch_func.times4(1.5, t.zeros(2, device="cuda", dtype=t.int32)),
     TypeError, r"times4"),
    ("not a launch size", lambda k, t: k.block_sum.block_sum(*[t.ones(3, device="cuda")] * 2, block="x"),
     (TypeError, ValueError), r"block"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_call(demo: ModuleType, torch: Any, call: Callable[..., Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=f"(?s){text}"):
        call(demo, torch)
    x = torch.zeros(3, device="cuda")
    assert demo.gelu.gelu(x).tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [(4, 5, "x and y must have one length"), (4, 4, "the sum of y is zero")],
    ids=["before any work", "with work queued"],
)
def test_host_assertion(hazards: ModuleType, torch: Any, x: int, y: int, text: str) -> None:
    a, b = torch.ones(x, device="cuda"), torch.zeros(y, device="cuda")
    for _ in range(3):
        with pytest.raises(RuntimeError, match=text):
            hazards.checks.divided(a, b)
    assert hazards.checks.divided(a, torch.full((x,), 2.0, device="cuda")).tolist() == [0.5] * 4


@pytest.mark.parametrize("step", [0, -2])
def test_a_loop_that_would_not_end(hazards: ModuleType, torch: Any, step: int) -> None:
    x = torch.ones(5, device="cuda")
    with pytest.raises(ValueError, match=rf"checks\.doubled\(\): the step of a loop \({step}\) is not above 0"):
        hazards.checks.doubled(x, step)
    hazards.checks.doubled(x, 2)
    assert x.tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(("n", "text"), [(2**45, "(?i)memory"), (-5, "(?i)negative")], ids=["too large", "negative"])
def test_impossible_size(hazards: ModuleType, torch: Any, n: int, text: str) -> None:
    with pytest.raises((RuntimeError, ValueError, MemoryError), match=text):
        hazards.results.zeros(n)
    x = torch.ones(9, device="cuda")
    count = torch.tensor(n, device="cuda")
    with pytest.raises((RuntimeError, ValueError, MemoryError)):
        hazards.results.sqrt_first(x, count)
    assert hazards.results.sqrt_first(x, torch.tensor(4, device="cuda")).tolist() == [1.0] * 4


def test_out_of_memory_of_a_temporary(demo: ModuleType, torch: Any) -> None:
    """attention's score matrix cannot be had: the driver says so, the pool and the next call are unharmed."""
    rows = torch.zeros(1, 300_000, 1, device="cuda")
    with pytest.raises((RuntimeError, MemoryError), match=r"(?i)memory"):
        demo.attention.attention(rows, rows, rows)
    small = torch.ones(1, 2, 2, device="cuda")
    assert demo.attention.attention(small, small, small).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


def test_more_workgroup_memory_than_there_is(hazards: ModuleType, torch: Any) -> None:
    x = torch.arange(16, dtype=torch.int32, device="cuda")
    out = torch.zeros_like(x)
    with pytest.raises((RuntimeError, ValueError), match=r"(?i)shared"):
        hazards.shared_memory.reversed(x, out, 1 << 20)
    hazards.shared_memory.reversed(x, out, 64)
    assert torch.equal(out, x.flip(0))


KERNEL_ASSERT = """
import torch, hazard_kernels as k
torch.cuda.init()
k.kernel_assert.below(4)
print("passed", flush=True)
try:
    k.kernel_assert.below(2)
    torch.cuda.synchronize()
except RuntimeError as error:
    print("raised", type(error).__name__, str(error).splitlines()[0], flush=True)
"""


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    """A Python process of its own, with this one's import path."""
    header = f"import sys; sys.path[:0] = {sys.path!r}\n"
    return subprocess.run([sys.executable, "-c", header + text], capture_output=True, text=True, timeout=120)


def test_kernel_assertion(hazards: ModuleType) -> None:
    done = run_script(KERNEL_ASSERT)
    out = done.stdout + done.stderr
    assert "passed" in out
    assert "raised" in out
    assert "ASSERT" in out.upper()
    assert "thread out of range" in out
    assert "[2,0,0]" in out


def test_text_is_printed_even_if_the_program_ends(hazards: ModuleType) -> None:
    done = run_script("import os, hazard_kernels as k\nk.printing.table(1)\nos._exit(0)\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3


def test_import_touches_no_driver(demo: ModuleType) -> None:
    script = "import demo_kernels\nprint('libcuda' in open('/proc/self/maps').read())\n"
    assert run_script(script).stdout.split() == ["False"]
