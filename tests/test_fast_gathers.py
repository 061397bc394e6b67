"""Values of bodies that read memory by themselves, and of those that ask for indices, on the CPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from cpurun import Program, build

SOURCE = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @embedded(%table: tensor<?x?xf32>, %i: tensor<?xi64>, %scale: tensor<?xf32>, %o: tensor<?x?xf32>)
    -> tensor<?x?xf32> {
  %r = linalg.generic {indexing_maps = [#row, #column, #full], iterator_types = ["parallel", "parallel"]}
      ins(%i, %scale : tensor<?xi64>, tensor<?xf32>) outs(%o : tensor<?x?xf32>) {
  ^bb0(%a: i64, %s: f32, %old: f32):
    %k = arith.index_cast %a : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %table[%k, %j] : tensor<?x?xf32>
    %w = arith.mulf %v, %s : f32
    linalg.yield %w : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @gathered(%x: tensor<?x16xf16>, %i: tensor<?x1xindex>) -> tensor<?x16xf16> {
  %r = tensor.gather %x[%i] gather_dims([0]) : (tensor<?x16xf16>, tensor<?x1xindex>) -> tensor<?x16xf16>
  return %r : tensor<?x16xf16>
}
func.func @picked(%x: tensor<?x?xf32>, %i: tensor<?xi32>, %o: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.generic {indexing_maps = [#column, #full], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<?xi32>) outs(%o : tensor<?x?xf32>) {
  ^bb0(%a: i32, %old: f32):
    %k = arith.index_cast %a : i32 to index
    %l = linalg.index 0 : index
    %v = tensor.extract %x[%l, %k] : tensor<?x?xf32>
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @causal(%x: tensor<?x?x?xf32>, %o: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %low = arith.constant -1.0 : f32
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x?x?xf32>) outs(%o : tensor<?x?x?xf32>) {
  ^bb0(%v: f32, %old: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi sle, %j, %i : index
    %w = arith.select %c, %v, %low : f32
    linalg.yield %w : f32
  } -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}
"""
SHAPES = ((1, 1), (3, 8), (5, 33), (2, 2048), (300, 12), (0, 4), (3, 0))


@functools.cache
def program() -> Program:
    return build(SOURCE)


def test_nothing_is_left_to_the_general_schedule() -> None:
    assert not program().lowered.notes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("first", [0, 1])
def test_rows_of_a_table(shape: tuple[int, int], first: int) -> None:
    m, n = shape
    random = np.random.default_rng(1)
    memory = random.integers(-9, 9, 7 * n + first).astype("f4")
    table, scale = memory[first:].reshape(7, n), random.integers(1, 4, n).astype("f4")
    i = random.integers(0, 7, m)
    got = program().call("embedded", table, i, scale, np.zeros(shape, "f4")).results[0]
    np.testing.assert_array_equal(got, table[i] * scale)


@pytest.mark.parametrize("count", [0, 1, 5, 300])
def test_slices(count: int) -> None:
    x = np.random.default_rng(2).standard_normal((9, 16)).astype("f2")
    i = np.random.default_rng(3).integers(0, 9, (count, 1))
    np.testing.assert_array_equal(program().call("gathered", x, i).results[0], x[i[:, 0]])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_of_a_table(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(4).standard_normal((shape[0], 5)).astype("f4")
    i = np.random.default_rng(5).integers(0, 5, shape[1]).astype("i4")
    np.testing.assert_array_equal(program().call("picked", x, i, np.zeros(shape, "f4")).results[0], x[:, i])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_indices(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(6).standard_normal((2, *shape)).astype("f4")
    want = np.where(np.tri(*shape, dtype=bool), x, np.float32(-1))
    np.testing.assert_array_equal(program().call("causal", x, np.zeros_like(x)).results[0], want)
