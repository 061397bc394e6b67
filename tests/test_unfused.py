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
