"""Products with a factor that several operands make: computed once, and right."""

from __future__ import annotations

import numpy as np
import pytest
from cpurun import build

# A factor that fusing has made of two operands, as a softmax's quotient before a product.
QUOTIENT = """
func.func @f(%e: tensor<?x?xf32>, %l: tensor<?xf32>, %v: tensor<?x?xf32>, %o: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%e, %l, %v : tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %w: f32, %old: f32):
    %q = arith.divf %x, %y : f32
    %p = arith.mulf %q, %w : f32
    %s = arith.addf %old, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


@pytest.mark.parametrize("backwards", [False, True])
def test_a_quotient_is_a_factor(backwards: bool) -> None:
    random = np.random.default_rng(3)
    program = build(QUOTIENT, backwards=backwards)
    for m, n, k in ((1, 8, 8), (33, 20, 17), (0, 3, 4), (4, 3, 0)):
        e, v = random.standard_normal((m, k)).astype("f4"), random.standard_normal((k, n)).astype("f4")
        length = random.uniform(1, 2, m).astype("f4")
        done = program.call("f", e, length, v, np.full((m, n), np.nan, "f4"))
        np.testing.assert_allclose(done.results[0], (e / length[:, None]).astype("f8") @ v, rtol=1e-4, atol=1e-5)
        assert done.swept == 0, "the factor's memory is given back"
    assert [note for note in program.lowered.notes if "general" in note] == []


CROSSED = """
func.func @f(%e: tensor<?x?xf32>, %l: tensor<?xf32>, %v: tensor<?x?xf32>, %one: tensor<?x?xf32>,
             %two: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%e, %l, %v : tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>)
      outs(%one, %two : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %w: f32, %a: f32, %b: f32):
    %q = arith.divf %x, %y : f32
    %p = arith.mulf %q, %w : f32
    %s = arith.addf %b, %p : f32
    linalg.yield %s, %a : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %r#0, %r#1 : tensor<?x?xf32>, tensor<?x?xf32>
}
"""


def test_sums_that_change_places_are_no_products() -> None:
    random = np.random.default_rng(4)
    e, length, v = random.standard_normal((6, 5)), random.uniform(1, 2, 6), random.standard_normal((5, 8))
    one, two = random.standard_normal((2, 6, 8))
    arrays = [each.astype("f4") for each in (e, length, v, one, two)]
    for k in range(5):
        one, two = two + np.outer(e[:, k] / length, v[k]), one
    got = build(CROSSED).call("f", *arrays).results
    np.testing.assert_allclose(got, [one, two], rtol=1e-4, atol=1e-5)


OVERLAPPING = """
func.func @f(%e: memref<?x?xf32>, %other: memref<?x?xf32>, %l: memref<?xf32>, %v: memref<?x?xf32>,
             %o: memref<?x?xf32>) {
  linalg.floor ins(%v : memref<?x?xf32>) outs(%e : memref<?x?xf32>)
  linalg.exp ins(%v : memref<?x?xf32>) outs(%other : memref<?x?xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%e, %l, %v : memref<?x?xf32>, memref<?xf32>, memref<?x?xf32>) outs(%o : memref<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %w: f32, %old: f32):
    %q = arith.divf %x, %y : f32
    %p = arith.mulf %q, %w : f32
    %s = arith.addf %old, %p : f32
    linalg.yield %s : f32
  }
  return
}
"""


def test_a_factor_is_made_behind_what_may_write_it() -> None:
    """References may be the same array under two names."""
    random = np.random.default_rng(5)
    v, length = random.standard_normal((8, 8)).astype("f4"), random.uniform(1, 2, 8).astype("f4")
    program = build(OVERLAPPING)
    e, other, out = (np.zeros((8, 8), "f4") for _ in range(3))
    program.call("f", e, other, length, v, out)
    np.testing.assert_allclose(out, (np.floor(v) / length[:, None]) @ v, rtol=1e-4, atol=1e-4)
    out[:] = 0
    program.call("f", e, e, length, v, out)
    np.testing.assert_allclose(out, (np.exp(v) / length[:, None]) @ v, rtol=1e-4, atol=1e-4)
