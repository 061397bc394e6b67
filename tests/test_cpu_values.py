"""Values of CPU code: every tensor-level example, case, hazard and operation, on all kinds of processors that this is.

The same sources, arguments and references as on the GPU.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import cpucall
import numpy as np
import pytest
from gpu_calls import Call, arguments, compare, compare_results
from ops_table import sources
from test_tensor_values import CHOSEN, FOLDERS

CALLS = [(variant, place, call) for variant in cpucall.runnable() for place, call in CHOSEN]


@functools.cache
def program(variant: str, place: str, source: str) -> cpucall.Program:
    text = sources()[f"{source}.mlir"] if place == "tensor_ops" else (FOLDERS[place] / f"{source}.mlir").read_text()
    return cpucall.build(text, variant, wide=source != "native_halves")


@pytest.mark.parametrize(
    ("variant", "place", "call"), CALLS, ids=[f"{v}-{p}-{c.source}.{c.function}-{c.id}" for v, p, c in CALLS]
)
def test_values(variant: str, place: str, call: Call) -> None:
    given = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments(call))
    host = arguments(call)
    outcome = program(variant, place, call.source).call(call.function, *given)
    expected = call.results(*host) if call.results else None
    results = [value.item() if isinstance(value, np.generic) else value for value in outcome.results]
    got: Any = results[0] if len(results) == 1 else tuple(results) or None
    compare_results(call, got, expected, given)
    written = call.written(*host) if call.written else {}
    for index, value in enumerate(host):
        if isinstance(value, np.ndarray):
            compare(f"argument {index}", given[index], written.get(index, value), call.rtol, call.atol)


@pytest.mark.parametrize("variant", cpucall.runnable())
@pytest.mark.parametrize(("lengths", "text"), [((4, 5), "one length"), ((4, 4), "sum of y is zero")])
def test_assertion(variant: str, lengths: tuple[int, int], text: str) -> None:
    source = (Path(FOLDERS["hazards"]) / "checks.mlir").read_text()
    checks = cpucall.build(source, variant)
    with pytest.raises(cpucall.CallError) as caught:
        checks.call("divided", *(np.zeros(n, "f4") for n in lengths))
    assert text in checks.messages[int(str(caught.value).split()[-1])]
