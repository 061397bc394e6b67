"""Calls whose extents do not fit raise, and narrow integers keep their sign: odd tensor-level programs on the CPU."""

from __future__ import annotations

import functools
from typing import Any

import cpurun
import numpy as np
import pytest

RESHAPES = """
func.func @halves(%x: tensor<?x4xf32>) -> tensor<?x2x4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %m = tensor.dim %x, %c0 : tensor<?x4xf32>
  %h = arith.divui %m, %c2 : index
  %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [%h, 2, 4] : tensor<?x4xf32> into tensor<?x2x4xf32>
  return %e : tensor<?x2x4xf32>
}
func.func @split(%x: tensor<?xf32>, %m: index, %n: index) -> tensor<?x?xf32> {
  %e = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n] : tensor<?xf32> into tensor<?x?xf32>
  return %e : tensor<?x?xf32>
}
func.func @nothing(%x: tensor<?xf32>, %m: index) -> tensor<?x0xf32> {
  %e = tensor.expand_shape %x [[0, 1]] output_shape [%m, 0] : tensor<?xf32> into tensor<?x0xf32>
  return %e : tensor<?x0xf32>
}
func.func @strided(%x: memref<?x?xf32, strided<[?, ?], offset: ?>>, %m: index, %n: index, %y: memref<?x?x?xf32>) {
  %c1 = arith.constant 1 : index
  %k = memref.dim %x, %c1 : memref<?x?xf32, strided<[?, ?], offset: ?>>
  %e = memref.expand_shape %x [[0, 1], [2]] output_shape [%m, %n, %k]
      : memref<?x?xf32, strided<[?, ?], offset: ?>> into memref<?x?x?xf32, strided<[?, ?, ?], offset: ?>>
  linalg.copy ins(%e : memref<?x?x?xf32, strided<[?, ?, ?], offset: ?>>) outs(%y : memref<?x?x?xf32>)
  return
}
func.func @reshape(%x: tensor<?xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
  %e = tensor.reshape %x(%s) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %e : tensor<?x?xf32>
}
func.func @slice(%x: tensor<?xf32>, %o: index, %n: index, %s: index) -> tensor<?xf32> {
  %e = tensor.extract_slice %x[%o][%n][%s] : tensor<?xf32> to tensor<?xf32>
  return %e : tensor<?xf32>
}
"""

ELEMENTS = """
func.func @at(%x: tensor<?x3xf32>, %i: index, %j: index) -> f32 {
  %v = tensor.extract %x[%i, %j] : tensor<?x3xf32>
  return %v : f32
}
func.func @put(%x: tensor<?xf32>, %v: f32, %i: index) -> tensor<?xf32> {
  %y = tensor.insert %v into %x[%i] : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

NARROW = """
func.func @f(%x: tensor<4xi2>) -> (tensor<4xi2>, tensor<4xi2>, tensor<4xi2>, tensor<4xi32>) {
  %e = tensor.empty() : tensor<4xi2>
  %w = tensor.empty() : tensor<4xi32>
  %r = linalg.map { arith.addi } ins(%x, %x : tensor<4xi2>, tensor<4xi2>) outs(%e : tensor<4xi2>)
  %c = arith.constant dense<[-2, -1, 0, 1]> : tensor<4xi2>
  %k = arith.constant dense<-1> : tensor<4xi2>
  %u = linalg.map { arith.extui } ins(%x : tensor<4xi2>) outs(%w : tensor<4xi32>)
  return %r, %c, %k, %u : tensor<4xi2>, tensor<4xi2>, tensor<4xi2>, tensor<4xi32>
}
"""

X = np.arange(12, dtype="f4")
HUGE = 2**62


@functools.cache
def program(source: str) -> cpurun.Program:
    return cpurun.build(source)


def shape(*extents: int) -> np.ndarray[Any, Any]:
    return np.array(extents, "i4")


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        pytest.param("halves", [X[:8].reshape(2, 4)], X[:8].reshape(1, 2, 4), id="expanded"),
        pytest.param("split", [X, 3, 4], X.reshape(3, 4), id="expanded by numbers"),
        pytest.param("nothing", [X[:0], 3], X[:0].reshape(3, 0), id="expanded to nothing"),
        pytest.param("reshape", [X, shape(4, 3)], X.reshape(4, 3), id="reshaped"),
        pytest.param("slice", [X, 1, 4, 3], X[1::3], id="sliced"),
        pytest.param("slice", [X, 12, 0, 1], X[:0], id="nothing at the end"),
        pytest.param("slice", [X, 11, 3, -5], X[::-5], id="sliced backwards"),
    ],
)
def test_extents_that_fit(function: str, arguments: list[Any], expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(program(RESHAPES).call(function, *arguments).results[0], expected)


def test_views_that_are_expanded() -> None:
    x, y = np.arange(48, dtype="f4").reshape(6, 8).T[1:7:1, 1:5:2], np.zeros((2, 3, 2), "f4")
    program(RESHAPES).call("strided", x, 2, 3, y)
    np.testing.assert_array_equal(y, x.reshape(2, 3, 2))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        pytest.param("halves", [X.reshape(3, 4)], id="expanded with a rest"),
        pytest.param("split", [X, 3, 5], id="expanded to more"),
        pytest.param("split", [X, -3, -4], id="expanded to negative extents"),
        pytest.param("nothing", [X, 3], id="expanded to nothing of something"),
        pytest.param("reshape", [X, shape(4, 4)], id="reshaped to more"),
        pytest.param("reshape", [X, shape(3, 3)], id="reshaped to less"),
        pytest.param("reshape", [X, shape(-4, -3)], id="reshaped to negative extents"),
        pytest.param("slice", [X, 13, 0, 1], id="slice behind the end"),
        pytest.param("slice", [X, 11, 4, -5], id="slice before the beginning"),
        pytest.param("slice", [X, HUGE, HUGE, 1], id="sum overflows"),
        pytest.param("slice", [X, 0, HUGE + 1, 4], id="product overflows"),
    ],
)
def test_extents_that_do_not_fit(function: str, arguments: list[Any]) -> None:
    with pytest.raises(cpurun.CallError):
        program(RESHAPES).call(function, *arguments)


@pytest.mark.parametrize(
    ("i", "j", "fits"), [(1, 2, True), (2, 0, False), (0, 3, False), (-1, 0, False), (HUGE, 0, False)]
)
def test_elements_that_host_code_reads(i: int, j: int, fits: bool) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    if fits:
        assert program(ELEMENTS).call("at", x, i, j).results == [x[i, j]]
    else:
        with pytest.raises(cpurun.CallError):
            program(ELEMENTS).call("at", x, i, j)


@pytest.mark.parametrize(("i", "fits"), [(0, True), (11, True), (12, False), (-1, False)])
def test_elements_that_are_put_in(i: int, fits: bool) -> None:
    if fits:
        assert program(ELEMENTS).call("put", X, 7.0, i).results[0][i] == 7
    else:
        with pytest.raises(cpurun.CallError):
            program(ELEMENTS).call("put", X, 7.0, i)


def test_a_destination_of_another_length_is_named() -> None:
    into = program(
        "func.func @f(%x: tensor<?xf32>, %target: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %r = linalg.map { math.absf } ins(%x : tensor<?xf32>) outs(%target : tensor<?xf32>)\n"
        "  return %r : tensor<?xf32>\n}\n"
    )
    with pytest.raises(cpurun.CallError) as caught:
        into.call("f", X, X[:5].copy())
    # The harness knows no names.
    assert f"extent 0 of 'arg1' (5) is not extent 0 of 'arg0' ({len(X)})" in str(caught.value)


ODD_TYPES = """
func.func @complex(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %c = arith.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>
  %e = tensor.empty() : tensor<2xcomplex<f32>>
  %r = linalg.map ins(%x, %c : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) outs(%e : tensor<2xcomplex<f32>>)
      (%a: complex<f32>, %b: complex<f32>, %o: complex<f32>) {
    %s = complex.add %a, %b : complex<f32>
    linalg.yield %s : complex<f32>
  }
  return %r : tensor<2xcomplex<f32>>
}
func.func @wide(%x: tensor<?xi64>) -> tensor<i64> {
  %least = arith.constant 170141183460469231731687303715884105727 : i128
  %e = tensor.empty() : tensor<i128>
  %start = linalg.fill ins(%least : i128) outs(%e : tensor<i128>) -> tensor<i128>
  %w = arith.extsi %x : tensor<?xi64> to tensor<?xi128>
  %m = linalg.reduce { arith.minsi } ins(%w : tensor<?xi128>) outs(%start : tensor<i128>) dimensions = [0]
  %r = arith.trunci %m : tensor<i128> to tensor<i64>
  return %r : tensor<i64>
}
func.func @strides(%x: memref<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [3, 2], strides: [4, 2]
      : memref<16xf32> to memref<3x2xf32, strided<[?, ?], offset: ?>>
  linalg.fill ins(%zero : f32) outs(%v : memref<3x2xf32, strided<[?, ?], offset: ?>>)
  return
}
"""


def test_constants_of_complex_numbers_and_wide_integers() -> None:
    called = program(ODD_TYPES)
    np.testing.assert_array_equal(called.call("complex", np.array([1j, 2], "c8")).results[0], [1 + 3j, 5 - 4j])
    for n in (3, 3000, 20000):
        assert called.call("wide", np.append(np.arange(n), -(2**63))).results[0] == -(2**63)


def test_strides_that_the_type_of_a_view_does_not_say() -> None:
    x = np.ones(16, "f4")
    program(ODD_TYPES).call("strides", x)
    assert np.flatnonzero(x == 0).tolist() == [1, 3, 5, 7, 9, 11]


def test_integers_narrower_than_a_byte_keep_their_sign() -> None:
    """Arrays of i2 are int8 in Python."""
    results = program(NARROW).call("f", np.array([-2, -1, 0, 1], "i1")).results
    expected = ([0, -2, 0, -2], [-2, -1, 0, 1], [-1, -1, -1, -1], [2, 3, 0, 1])
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
