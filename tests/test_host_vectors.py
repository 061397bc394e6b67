"""Vector operations that the source has outside of kernels: reductions, scans, masks that tensors are read with."""

from __future__ import annotations

from typing import Any

import cpucall
import cpurun
import numpy as np
import pytest

from tests.lowering import lower

X = np.random.default_rng(3).standard_normal((4, 8)).astype("f4")
SMALL = np.zeros((4, 8), bool)
SMALL[:3, :3] = True
INSIDE = "%m = vector.create_mask %c3, %c3 : vector<4x8xi1>"
READ = "vector.transfer_read %x[%c0, %c0], %z"
ALL = "{in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>"
ALL_OF_IT = "{in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>"
CASES: dict[str, tuple[str, tuple[int, ...], Any]] = {
    # What makes %s of %v, all of the argument; its extents; what it is.
    "sum of rows": (
        "%s = vector.multi_reduction <add>, %v, %ones [1] : vector<4x8xf32> to vector<4xf32>",
        (4,),
        X.sum(1) + 1,
    ),
    "sum of all": (
        "%t = vector.multi_reduction <add>, %v, %z [0, 1] : vector<4x8xf32> to f32\n"
        "%s = vector.broadcast %t : f32 to vector<2xf32>",
        (2,),
        np.full(2, X.sum()),
    ),
    "scan down columns": (
        "%t = vector.extract %v[0] : vector<8xf32> from vector<4x8xf32>\n"
        "%s, %l = vector.scan <add>, %v, %t {inclusive = true, reduction_dim = 0 : i64}\n"
        " : vector<4x8xf32>, vector<8xf32>",
        (4, 8),
        X.cumsum(0),
    ),
    "scan of what is before": (
        "%s, %l = vector.scan <mul>, %v, %ones {inclusive = false, reduction_dim = 1 : i64}\n"
        " : vector<4x8xf32>, vector<4xf32>",
        (4, 8),
        np.concatenate([np.ones((4, 1)), X.cumprod(1)[:, :-1]], 1),
    ),
    "masked read": (f"{INSIDE}\n%s = {READ}, %m {ALL}", (4, 8), np.where(SMALL, X, 0)),
    "masked write": (
        f"{INSIDE}\n%t = vector.transfer_write %v, %sevens[%c0, %c0], %m {ALL_OF_IT}\n"
        f"%s = {READ.replace('%x', '%t')} {ALL}",
        (4, 8),
        np.where(SMALL, X, 7),
    ),
    "masked write onto another one": (
        f"{INSIDE}\n%e = tensor.empty() : tensor<4x8xf32>\n"
        f"%f = vector.transfer_write %seven, %e[%c0, %c0] {ALL_OF_IT}\n"
        f"%t = vector.transfer_write %v, %f[%c0, %c0], %m {ALL_OF_IT}\n%s = {READ.replace('%x', '%t')} {ALL}",
        (4, 8),
        np.where(SMALL, X, 7),
    ),
}


def source(body: str, extents: tuple[int, ...]) -> str:
    kind = "x".join(map(str, extents)) + "xf32"
    zeros, inside = ", ".join(["%c0"] * len(extents)), ", ".join(["true"] * len(extents))
    return f"""
func.func @f(%x: tensor<4x8xf32>) -> tensor<{kind}> {{
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %z = arith.constant 0.0 : f32
  %ones = arith.constant dense<1.0> : vector<4xf32>
  %seven = arith.constant dense<7.0> : vector<4x8xf32>
  %sevens = arith.constant dense<7.0> : tensor<4x8xf32>
  %v = {READ} {ALL}
  {body}
  %out = tensor.empty() : tensor<{kind}>
  %r = vector.transfer_write %s, %out[{zeros}] {{in_bounds = [{inside}]}} : vector<{kind}>, tensor<{kind}>
  return %r : tensor<{kind}>
}}
"""


@pytest.mark.parametrize(("body", "extents", "want"), CASES.values(), ids=CASES)
def test_values(body: str, extents: tuple[int, ...], want: Any) -> None:
    text = source(body, extents)
    for program in (cpurun.build(text), cpucall.build(text, cpucall.runnable()[0])):
        np.testing.assert_allclose(program.call("f", X).results[0], want, rtol=1e-5)


def test_reductions_beside_launches() -> None:
    done = lower("""
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @g(%n: f32) kernel { gpu.return }
}
func.func @f(%a: f32) {
  %c1 = arith.constant 1 : index
  %v = vector.broadcast %a : f32 to vector<4x8xf32>
  %t = vector.multi_reduction <add>, %v, %a [0, 1] : vector<4x8xf32> to f32
  gpu.launch_func @k::@g blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%t : f32)
  return
}
}""")
    assert "vector.reduce.fadd" in done.host_ir


def test_divisions_of_vectors_do_not_trap() -> None:
    text = """
func.func @f(%x: memref<4xi32>, %y: memref<4xi32>) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<4xi32>, vector<4xi32>
  %b = vector.load %y[%c0] : memref<4xi32>, vector<4xi32>
  %q = arith.divsi %a, %b : vector<4xi32>
  vector.store %q, %x[%c0] : memref<4xi32>, vector<4xi32>
  return
}
"""
    x, y = np.array([7, 8, -(2**31), 9], "i4"), np.array([2, 0, -1, -3], "i4")
    cpucall.build(text, cpucall.runnable()[0]).call("f", x, y)
    assert (x[0], x[3]) == (3, -3)
