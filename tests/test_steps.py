"""Loops whose step is 0 or negative in a call do not end: the call is refused, with the loop's line and the number."""

from __future__ import annotations

from typing import Any

import cpucall
import cpurun
import launchrun
import numpy as np
import pytest
from lowering import launch

KIND = "memref<?xf32>"
COUNT = f"""
    %old = memref.load %x[%c0] : {KIND}
    %new = arith.addf %old, %one : f32
    memref.store %new, %x[%c0] : {KIND}"""
HEAD = f"""func.func @f(%x: {KIND}, %n: index, %s: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
"""


def function(body: str) -> str:
    return f"{HEAD}{body}\n  return\n}}\n"


PLAIN = f"  scf.for %i = %c0 to %n step %s {{{COUNT}\n  }}"
SHORT = f"""  %i32 = arith.index_cast %n : index to i8
  %step = arith.index_cast %s : index to i8
  %zero = arith.constant 0 : i8
  scf.for unsigned %i = %zero to %i32 step %step : i8 {{{COUNT}
  }}"""
PARALLEL = f"""  scf.parallel (%i) = (%c0) to (%n) step (%s) {{
    memref.store %one, %x[%i] : {KIND}
  }}"""
FORALL = f"""  scf.forall (%i) = (0) to (%n) step (%s) {{
    memref.store %one, %x[%i] : {KIND}
  }}"""
INNER = f"""  scf.for %j = %c0 to %n step %c1 {{
  scf.for %i = %c0 to %n step %s {{{COUNT}
  }} }}"""
GROWING = f"""  %c4 = arith.constant 4 : index
  scf.for %j = %s to %n step %c1 {{
  scf.for %i = %c0 to %c4 step %j {{{COUNT}
  }} }}"""
BRANCH = f"""  scf.for %j = %c0 to %n step %c1 {{
  %even = arith.cmpi eq, %j, %c0 : index
  scf.if %even {{
  scf.for %i = %c0 to %n step %s {{{COUNT}
  }} }} }}"""
LOOPS = [
    # Of calls with (n, s): what x holds behind it, or the step that is refused.
    ("for", PLAIN, 5, {(4, 1): [4, 0, 0, 0], (4, 3): [2, 0, 0, 0]}, {(4, 0): 0, (4, -1): -1, (0, 0): 0}),
    ("unsigned, of few bits", SHORT, 8, {(4, 1): [4, 0, 0, 0], (100, 200): [1, 0, 0, 0]}, {(4, 0): 0}),
    ("parallel", PARALLEL, 5, {(4, 1): [1, 1, 1, 1], (4, 3): [1, 0, 0, 1]}, {(4, 0): 0, (4, -2): -2}),
    ("forall", FORALL, 5, {(4, 1): [1, 1, 1, 1], (4, 3): [1, 0, 0, 1]}, {(4, 0): 0, (4, -2): -2}),
    ("in a loop", INNER, 6, {(2, 1): [4, 0, 0, 0], (0, 0): [0, 0, 0, 0]}, {(4, 0): 0, (4, -3): -3}),
    ("an index", GROWING, 7, {(3, 1): [6, 0, 0, 0], (0, 0): [0, 0, 0, 0]}, {(1, 0): 0, (4, -3): -3}),
]  # fmt: skip
IDS = [row[0] for row in LOOPS]
Call = tuple[int, int]


def refused(program: Any, *arguments: Any) -> str:
    with pytest.raises((cpurun.CallError, launchrun.cpurun.CallError), match="refused: ") as caught:
        program.call("f", *arguments)
    return str(caught.value)


@pytest.mark.parametrize(("body", "line", "right", "wrong"), [row[1:] for row in LOOPS], ids=IDS)
def test_steps(body: str, line: int, right: dict[Call, list[int]], wrong: dict[Call, int]) -> None:
    for program in (cpurun.build(function(body)), cpucall.build(function(body), cpucall.runnable()[0])):
        for call, want in right.items():
            x = np.zeros(4, "f4")
            program.call("f", x, *call)
            assert x.tolist() == want
        for call, step in wrong.items():
            said = refused(program, np.zeros(4, "f4"), *call)
            assert said == f"refused: the step of a loop ({step}) is not above 0 (test.mlir:{line})"


def test_a_loop_that_is_not_always_reached() -> None:
    """It is checked where it stands, on the CPU; before all loops it might be refused in vain."""
    program = cpucall.build(function(BRANCH), cpucall.runnable()[0])
    x = np.zeros(4, "f4")
    program.call("f", x, 0, 0)
    program.call("f", x, 3, 2)
    assert x.tolist() == [2, 0, 0, 0]
    assert "a loop (0)" in refused(program, x, 3, 0)


def test_launches_in_a_loop() -> None:
    body = launch("memref.store %one, %x[%i] : memref<?xf32>")
    text = function(f"  %c4 = arith.constant 4 : index\n  scf.for %i = %c0 to %n step %s {{\n{body}  }}")
    program, x = launchrun.build(text), np.zeros(4, "f4")
    program.call("f", x, 4, 2)
    assert x.tolist() == [1, 0, 1, 0]
    assert refused(program, x, 4, 0) == "refused: the step of a loop (0) is not above 0 (test.mlir:6)"


def test_steps_that_only_memory_knows() -> None:
    text = f"""
func.func @f(%x: {KIND}, %steps: memref<1xindex>, %n: index) {{
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %s = memref.load %steps[%c0] : memref<1xindex>
{PLAIN}
  return
}}
"""
    program = cpucall.build(text, cpucall.runnable()[0])
    assert "a loop (-7)" in refused(program, np.zeros(4, "f4"), np.array([-7]), 3)
