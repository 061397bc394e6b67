"""Atomic updates: each is made once, by GPU code (here one thread after the other) and by the threads of CPU code."""

from __future__ import annotations

import functools
import operator
from typing import Any

import cpucall
import cpurun
import ml_dtypes
import numpy as np
import pytest

LOOP = """
func.func @f(%x: memref<?x{0}>, %y: memref<3x{0}>, %olds: memref<?x{0}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?x{0}>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
    %v = memref.load %x[%i] : memref<?x{0}>
    %j = arith.remui %i, %c3 : index
    {1}
    memref.store %old, %olds[%i] : memref<?x{0}>
  }}
  return
}}
"""
GENERIC = """%old = memref.generic_atomic_rmw %y[%j] : memref<3x{0}> {{
    ^bb0(%now: {0}):
      %new = {1} %now, %v : {0}
      memref.atomic_yield %new : {0}
    }}"""
PRODUCT = "%old = memref.atomic_rmw {1} %v, %y[%j] : ({0}, memref<3x{0}>) -> {0}"
TYPES: dict[str, Any] = {
    **{"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"},
    **{"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"},
}
ROWS = [
    *((GENERIC, kind, "arith.addf", operator.add) for kind in ("f16", "bf16", "f32", "f64")),
    *((GENERIC, kind, "arith.maximumf", np.maximum) for kind in ("f16", "f32")),
    *((GENERIC, kind, "arith.muli", operator.mul) for kind in ("i8", "i16", "i32", "i64")),
    *((PRODUCT, kind, "mulf", operator.mul) for kind in ("f16", "bf16", "f32", "f64")),
    *((PRODUCT, kind, "muli", operator.mul) for kind in ("i8", "i16", "i32", "i64")),
]
IDS = [f"{'generic ' if form == GENERIC else ''}{what} {kind}" for form, kind, what, _ in ROWS]


def values(kind: str, what: str) -> Any:
    """Whose result is exact in any order."""
    rng = np.random.default_rng(3)
    if what.startswith("mul") or what == "arith.muli":
        return rng.choice([1, -1], 999).astype(TYPES[kind])
    return rng.integers(-1, 2, 999).astype(TYPES[kind])


@pytest.mark.parametrize(("form", "kind", "what", "operation"), ROWS, ids=IDS)
def test_every_update_counts(form: str, kind: str, what: str, operation: Any) -> None:
    source = LOOP.format(kind, form.format(kind, what))
    x, start = values(kind, what), np.array([3, 5, 7], TYPES[kind])
    want = [functools.reduce(operation, x[j::3], start[j]) for j in range(3)]
    programs = [*cpurun.both(source), cpucall.build(source, cpucall.runnable()[-1])]
    for program in programs:
        y, olds = start.copy(), np.zeros_like(x)
        program.call("f", x, y, olds)
        assert y.tolist() == want
    # Forwards the old values are known: those before each update.
    y, olds = start.copy(), np.zeros_like(x)
    programs[0].call("f", x, y, olds)
    assert olds[:6].tolist() == [*start, *map(operation, start, x[:3])]


def test_a_number_that_is_none_ends_no_loop_late() -> None:
    source = LOOP.format("f32", PRODUCT.format("f32", "mulf"))
    for program in (cpurun.build(source), cpucall.build(source, cpucall.runnable()[-1])):
        y = np.array([np.nan, 1, np.inf], "f4")
        program.call("f", np.full(9, 2, "f4"), y, np.zeros(9, "f4"))
        np.testing.assert_array_equal(y, np.array([np.nan, 8, np.inf], "f4"))


def test_every_ticket_is_given_once() -> None:
    source = LOOP.format("i32", GENERIC.format("i32", "arith.addi"))
    for program in (cpurun.build(source), cpucall.build(source, cpucall.runnable()[-1])):
        olds = np.zeros(6000, "i4")
        program.call("f", np.ones(6000, "i4"), np.zeros(3, "i4"), olds)
        assert [sorted(olds[j::3].tolist()) for j in range(3)] == [list(range(2000))] * 3
