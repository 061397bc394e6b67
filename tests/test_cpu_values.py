"""Values of CPU code: every tensor-level example, case, hazard and operation, on all kinds of processors that this is.

The same sources, arguments and references as on the GPU.
"""

from __future__ import annotations

import functools

import cpucall
import numpy as np
import pytest
from gpu_calls import Call, arguments
from test_tensor_values import CHOSEN, check, source_text

CALLS = [(variant, place, call) for variant in cpucall.runnable() for place, call in CHOSEN]


@functools.cache
def program(variant: str, place: str, source: str) -> cpucall.Program:
    return cpucall.build(source_text(place, source), variant, wide=source != "native_halves")


@pytest.mark.parametrize(
    ("variant", "place", "call"), CALLS, ids=[f"{v}-{p}-{c.source}.{c.function}-{c.id}" for v, p, c in CALLS]
)
def test_values(variant: str, place: str, call: Call) -> None:
    given = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments(call))
    host = arguments(call)
    outcome = program(variant, place, call.source).call(call.function, *given)
    check(call, host, given, outcome.results)


@pytest.mark.parametrize("variant", cpucall.runnable())
@pytest.mark.parametrize(("lengths", "text"), [((4, 5), "one length"), ((4, 4), "sum of y is zero")])
def test_assertion(variant: str, lengths: tuple[int, int], text: str) -> None:
    source = source_text("hazards", "checks")
    checks = cpucall.build(source, variant)
    with pytest.raises(cpucall.CallError) as caught:
        checks.call("divided", *(np.zeros(n, "f4") for n in lengths))
    assert text in checks.messages[int(str(caught.value).split()[-1])]


ANOTHER_NAME = """
func.func @f(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>, %other: memref<?x?xf32>,
             %copy: memref<?x?xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%c : memref<?x?xf32>)
  linalg.exp ins(%other : memref<?x?xf32>) outs(%copy : memref<?x?xf32>)
  linalg.matmul ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)
  return
}"""


@pytest.mark.parametrize("variant", cpucall.runnable()[:1])
def test_zeros_may_be_read_before_the_product_is_added(variant: str) -> None:
    """References may be the same array under two names."""
    code = cpucall.build(ANOTHER_NAME, variant)
    for size in (3, 64):
        a, b = np.random.default_rng(size).standard_normal((2, size, size)).astype("f4")
        c, copy = np.full((size, size), 7, "f4"), np.zeros((size, size), "f4")
        code.call("f", a, b, c, c, copy)
        np.testing.assert_array_equal(copy, 1)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-4)


DECAY = """
func.func @f(%x: tensor<?x?x?xf32>, %c: tensor<?xf32>) -> tensor<?xf32> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, k, i)>, affine_map<(i, j, k) -> (k)>],
      iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<?x?x?xf32>) outs(%c : tensor<?xf32>) {
  ^bb0(%a: f32, %old: f32):
    %half = arith.constant 0.5 : f32
    %t = arith.mulf %old, %half : f32
    %u = arith.addf %t, %a : f32
    linalg.yield %u : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
}"""


@pytest.mark.parametrize("variant", cpucall.runnable()[:1])
def test_reductions_keep_their_order_where_it_matters(variant: str) -> None:
    """Memory runs along the first of the reduced loops, which is the outer one all the same."""
    x = np.random.default_rng(6).standard_normal((3, 4, 5)).astype("f4")
    want = np.ones(4)
    for i in range(5):
        for j in range(3):
            want = want / 2 + x[j, :, i]
    got = cpucall.build(DECAY, variant).call("f", x, np.ones(4, "f4")).results[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)
