"""The GPU tests' tables of tensor-level calls, run on the CPU: the same sources, arguments and references.

What a GPU adds (streams, frameworks, the generated extension) is tested in tests/gpu; wrong values show here.
The names of libc's functions are left out: only a package renames what it compiles.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import cpurun
import numpy as np
import pytest
from case_calls import CASES
from example_calls import EXAMPLES
from gpu_calls import Call, arguments, compare, compare_results
from hazard_calls import HAZARDS
from ops_table import OPS, sources

from aot.lower import tensor
from aot.settings.wishes import FAST, GENERAL, SCHEDULES

TESTS = Path(__file__).parent
FOLDERS = {
    "examples": TESTS.parent / "examples" / "kernels",
    "cases": TESTS / "cases",
    "hazards": TESTS / "hazards",
}
TENSOR_LEVEL = {
    "examples": "attention gelu layernorm matmul rmsnorm softmax square vector_add",
    "cases": "constants embedding int8_matmul masks newton_sqrt seed_square slices softmax_named sums",
    "hazards": "booleans control halves native_halves results scalars softmaxes values",
}
OPERATIONS = [Call(op.name, op.family, op.name, op.make, op.results, None, op.rtol, op.atol) for op in OPS]
TABLES = {"examples": EXAMPLES, "cases": CASES, "hazards": HAZARDS, "tensor_ops": OPERATIONS}
CALLS = [(place, call) for place, calls in TABLES.items() for call in calls]


def source_text(place: str, source: str) -> str:
    return sources()[f"{source}.mlir"] if place == "tensor_ops" else (FOLDERS[place] / f"{source}.mlir").read_text()


@functools.cache
def program(place: str, source: str, schedules: str = FAST) -> cpurun.Program:
    options = tensor.Options(wide_accumulation=source != "native_halves", schedules=schedules)
    return cpurun.build(source_text(place, source), options=options)


def tensor_level(place: str, call: Call) -> bool:
    return place == "tensor_ops" or call.source in TENSOR_LEVEL[place].split()


CHOSEN = [(place, call) for place, call in CALLS if tensor_level(place, call)]


def check(call: Call, host: tuple[Any, ...], given: tuple[Any, ...], results: list[Any]) -> None:
    """Compares what a call gave, and has left in its arguments, with the reference's."""
    expected = call.results(*host) if call.results else None
    found = [value.item() if isinstance(value, np.generic) else value for value in results]
    compare_results(call, found[0] if len(found) == 1 else tuple(found) or None, expected, given)
    written = call.written(*host) if call.written else {}
    for index, value in enumerate(host):
        if isinstance(value, np.ndarray):
            compare(f"argument {index}", given[index], written.get(index, value), call.rtol, call.atol)


@pytest.mark.parametrize(("place", "call"), CHOSEN, ids=[f"{p}-{c.source}.{c.function}-{c.id}" for p, c in CHOSEN])
def test_values(place: str, call: Call) -> None:
    same_as_reference(program(place, call.source), call)


def same_as_reference(built: cpurun.Program, call: Call) -> None:
    host = arguments(call)
    given = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in host)
    check(call, host, given, built.call(call.function, *given).results)


WITHOUT_FAST = {
    "examples": "attention layernorm matmul rmsnorm softmax",
    "cases": "embedding int8_matmul masks slices sums",
    "hazards": "booleans control halves native_halves results softmaxes",
    "tensor_ops": "convolutions movement poolings products reductions",
}
SLOW = [(place, call) for place, call in CALLS if call.source in WITHOUT_FAST[place].split()]


@pytest.mark.parametrize(("place", "call"), SLOW, ids=[f"{p}-{c.source}.{c.function}-{c.id}" for p, c in SLOW])
def test_values_without_fast_schedules(place: str, call: Call) -> None:
    same_as_reference(program(place, call.source, GENERAL), call)


@pytest.mark.parametrize(("place", "source"), sorted({(place, call.source) for place, call in SLOW}))
def test_what_a_caller_sees_is_the_same_without_fast_schedules(place: str, source: str) -> None:
    fast, slow = (program(place, source, each).lowered for each in SCHEDULES)
    assert (slow.functions, slow.messages) == (fast.functions, fast.messages)
    kernels = set(re.findall(r'aot\.schedule = "([\w-]+)"', program(place, source, GENERAL).ir))
    assert kernels <= {"general", "one-thread"}, kernels


@pytest.mark.parametrize(("lengths", "text"), [((4, 5), "one length"), ((4, 4), "sum of y is zero")])
def test_host_assertion(lengths: tuple[int, int], text: str) -> None:
    checks = program("hazards", "checks")
    with pytest.raises(cpurun.CallError) as caught:
        checks.call("divided", *(np.zeros(n, "f4") for n in lengths))
    assert text in checks.lowered.messages[int(str(caught.value).split()[-1])]


def test_memref_functions() -> None:
    x, y = np.arange(64, dtype="f4").reshape(8, 8), np.ones(8, "f4")
    kernels = program("tensor_ops", "memrefs")
    kernels.call("saxpy", 2.0, x[0].copy(), y)
    np.testing.assert_allclose(y, 2 * x[0] + 1)
    out = np.zeros(4, "f4")
    kernels.call("diagonal", x.T[1:, ::2], out)
    np.testing.assert_array_equal(out, np.diagonal(x.T[1:, ::2])[:4])
