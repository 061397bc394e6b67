"""Elements that loops of the source read and write lie inside of their arrays, or the call is refused."""

from __future__ import annotations

from typing import Any

import cpucall
import cpurun
import numpy as np
import pytest

KIND = "memref<?xf32>"
HEAD = f"""func.func @f(%x: {KIND}, %y: {KIND}, %n: index, %s: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
"""
# Bodies copy x[place(i)] to y[i].
PLAIN = f"""  scf.for %i = %c0 to %n step %c1 {{
    %v = memref.load %x[%i] : {KIND}
    memref.store %v, %y[%i] : {KIND}
  }}"""
WHOLE = f"""  %m = memref.dim %x, %c0 : {KIND}
  scf.parallel (%i) = (%c0) to (%m) step (%c1) {{
    %v = memref.load %x[%i] : {KIND}
    memref.store %v, %y[%i] : {KIND}
  }}"""
SHIFTED = f"""  scf.parallel (%i) = (%c0) to (%n) step (%c2) {{
    %j = arith.addi %i, %s : index
    %v = memref.load %x[%j] : {KIND}
    memref.store %v, %y[%i] : {KIND}
  }}"""
AFFINE = f"""  affine.for %i = 0 to %n {{
    %v = affine.load %x[%n - %i + symbol(%s)] : {KIND}
    affine.store %v, %y[%i] : {KIND}
  }}"""
BRANCH = f"""  scf.for %i = %c0 to %n step %c1 {{
    %inside = arith.cmpi slt, %i, %c2 : index
    scf.if %inside {{
      %v = memref.load %x[%i] : {KIND}
      memref.store %v, %y[%i] : {KIND}
    }}
  }}"""
LOOPS = [
    # Calls (n, s) on arrays of 5 and 4 elements: those that are right, and what is said of others.
    ("for", PLAIN, [(4, 0), (0, 9), (-3, 0)], {(5, 0): "an index in a loop (0 to 4) leaves dimension 0 of 'arg1' (4)"}),
    ("all of an array", WHOLE, [], {(0, 0): "an index in a loop (0 to 4) leaves dimension 0 of 'arg1' (4)"}),
    (
        "with an offset and a step",
        SHIFTED,
        [(4, 2), (3, 2), (2, 4), (0, -7)],
        {
            (4, 3): "an index in a loop (3 to 5) leaves dimension 0 of 'arg0' (5)",
            (2, -1): "an index in a loop (-1 to -1) leaves dimension 0 of 'arg0' (5)",
            (5, 0): "an index in a loop (0 to 4) leaves dimension 0 of 'arg1' (4)",
        },
    ),
    (
        "affine, backwards",
        AFFINE,
        [(4, 0), (3, 1), (0, 50)],
        {
            (4, 1): "an index in a loop (2 to 5) leaves dimension 0 of 'arg0' (5)",
            (3, -2): "an index in a loop (-1 to 1) leaves dimension 0 of 'arg0' (5)",
        },
    ),
    ("in a branch", BRANCH, [(4, 0), (900, 0)], {}),
]
PLACES = {PLAIN: lambda i, n, s: i, SHIFTED: lambda i, n, s: i + s, AFFINE: lambda i, n, s: n - i + s}


def numbers() -> tuple[Any, Any]:
    return np.arange(1, 6).astype("f4"), np.zeros(4, "f4")


@pytest.mark.parametrize(("body", "right", "wrong"), [row[1:] for row in LOOPS], ids=[row[0] for row in LOOPS])
def test_elements_in_loops(body: str, right: list[tuple[int, int]], wrong: dict[tuple[int, int], str]) -> None:
    text = f"{HEAD}{body}\n  return\n}}\n"
    for program in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        for n, s in right:
            x, y = numbers()
            program.call("f", x, y, n, s)
            steps = range(0, n, 2 if body == SHIFTED else 1) if body in PLACES else range(2)
            want = [x[PLACES.get(body, PLACES[PLAIN])(i, n, s)] if i in steps else 0 for i in range(4)]
            assert y.tolist() == want
        for call, said in wrong.items():
            with pytest.raises(cpurun.CallError) as caught:
                program.call("f", *numbers(), *call)
            assert str(caught.value).startswith(f"refused: {said} (test.mlir:")


def test_loops_over_an_array_check_nothing_of_it() -> None:
    """Which leaves the one check of the other array."""
    done = cpurun.build(f"{HEAD}{WHOLE}\n  return\n}}\n")
    assert [text.split(" (")[0] for text in done.lowered.messages] == ["an index in a loop"]
