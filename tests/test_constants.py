"""Constants of a source: kernels have their own copy, host code another one."""

from __future__ import annotations

import re

import pytest
from lowering import lower

CONSTANTS = {
    "returned": """func.func @f() -> tensor<5xi32> {
      %c = arith.constant dense<[2, 3, 5, 7, 11]> : tensor<5xi32>
      return %c : tensor<5xi32>
    }""",
    "along rows": """func.func @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %w = arith.constant dense<[0.5, -1.0, 2.0, 3.25]> : tensor<4xf32>
      %c0 = arith.constant 0 : index
      %m = tensor.dim %x, %c0 : tensor<?x4xf32>
      %e = tensor.empty(%m) : tensor<?x4xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%x, %w : tensor<?x4xf32>, tensor<4xf32>) outs(%e : tensor<?x4xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        linalg.yield %p : f32
      } -> tensor<?x4xf32>
      return %r : tensor<?x4xf32>
    }""",
    "a factor": """func.func @f(%x: tensor<?x64xf16>) -> tensor<?x128xf32> {
      %w = arith.constant dense_resource<weights> : tensor<64x128xf16>
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %m = tensor.dim %x, %c0 : tensor<?x64xf16>
      %e = tensor.empty(%m) : tensor<?x128xf32>
      %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x128xf32>) -> tensor<?x128xf32>
      %r = linalg.matmul ins(%x, %w : tensor<?x64xf16>, tensor<64x128xf16>) outs(%i : tensor<?x128xf32>)
          -> tensor<?x128xf32>
      return %r : tensor<?x128xf32>
    }
    {-# dialect_resources: { builtin: { weights: "0x02000000"""
    + "003c0038" * 4096
    + """" } } #-}""",
    "read by the host, too": """func.func @f(%x: tensor<4xf32>, %at: index) -> tensor<?xf32> {
      %w = arith.constant dense<[5, 1, 2, 3]> : tensor<4xindex>
      %n = tensor.extract %w[%at] : tensor<4xindex>
      %e = tensor.empty(%n) : tensor<?xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          outs(%e : tensor<?xf32>) {
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %c4 = arith.constant 4 : index
        %j = arith.remui %i, %c4 : index
        %k = tensor.extract %w[%j] : tensor<4xindex>
        %l = arith.index_cast %k : index to i32
        %y = arith.sitofp %l : i32 to f32
        linalg.yield %y : f32
      } -> tensor<?xf32>
      return %r : tensor<?xf32>
    }""",
}


@pytest.mark.parametrize("source", CONSTANTS.values(), ids=CONSTANTS)
def test_kernels_read_their_own_copy_of_a_constant(source: str) -> None:
    """The address of the host's copy means nothing to a GPU: neither it nor the memory is an argument of a launch."""
    host = lower(source, capabilities=((9, 0),)).host.partition("gpu.module")[0]
    constants = re.findall(r"(%\w+) = memref.get_global", host)
    while True:
        views = (
            r"(%\w+)(?::\d+)? = memref\.\w+ (?:" + "|".join(map(re.escape, constants)) + r")\b" if constants else "$^"
        )
        found = [each for each in re.findall(views, host) if each not in constants]
        loads = re.findall(r"(%\w+) = memref\.(?:load|dim) ", host)
        found = [each for each in found if each not in loads]
        if not found:
            break
        constants += found
    launches = [line for line in host.splitlines() if "gpu.launch_func" in line]
    assert launches
    for line in launches:
        assert not set(re.findall(r"%\w+", line.partition("args(")[2])) & set(constants), line
