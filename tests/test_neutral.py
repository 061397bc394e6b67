"""Values that change nothing: what partial results start from, and masked elements become."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpurun import Program, build

EXTREMES: dict[str, Any] = {
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
}


def rows(operation: str, kind: str, flags: str = "") -> Program:
    """A function that puts a row's elements together, beginning with what is in the result."""
    return build(f"""
func.func @f(%x: tensor<?x?x{kind}>, %o: tensor<?x{kind}>) -> tensor<?x{kind}> {{
  %y = linalg.reduce ins(%x : tensor<?x?x{kind}>) outs(%o : tensor<?x{kind}>) dimensions = [1]
    (%a: {kind}, %b: {kind}) {{
      %r = arith.{operation} %a, %b {flags} : {kind}
      linalg.yield %r : {kind}
    }}
  return %y : tensor<?x{kind}>
}}""")


@pytest.mark.parametrize("operation", EXTREMES)
def test_rows_of_nothing_but_nan(operation: str) -> None:
    ufunc, built = EXTREMES[operation], rows(operation, "f32")
    for columns in (1, 40, 1001, 40000):
        x = np.full((3, columns), np.nan, "f4")
        x[1, columns // 2] = -3
        start = np.array([np.nan, np.nan, 2], "f4")
        got = built.call("f", x, start.copy()).results[0]
        np.testing.assert_array_equal(got, ufunc(ufunc.reduce(x, 1), start))


@pytest.mark.parametrize("operation", EXTREMES)
def test_a_promise_of_no_nan_is_of_the_elements_alone(operation: str) -> None:
    ufunc, built = EXTREMES[operation], rows(operation, "f32", "fastmath<fast>")
    assert "fastmath<" not in built.ir
    for columns in (1, 40, 1001):
        x = np.random.default_rng(columns).standard_normal((3, columns)).astype("f4")
        got = built.call("f", x, np.zeros(3, "f4")).results[0]
        np.testing.assert_array_equal(got, ufunc(ufunc.reduce(x, 1), np.float32(0)))


@pytest.mark.parametrize("operation", ["addi", "muli"])
def test_a_promise_of_no_overflow_is_of_the_sources_order_alone(operation: str) -> None:
    """Sums of every other element may overflow where those of the first ones do not."""
    built = rows(operation, "i32", "overflow<nsw>")
    assert "overflow<" not in built.ir
    x = np.tile(np.array([1 << 20, -(1 << 20)] if operation == "addi" else [1, -1], "i4"), (2, 4096))
    got = built.call("f", x, np.ones(2, "i4")).results[0]
    np.testing.assert_array_equal(got, 1)


@pytest.mark.parametrize(("operation", "ufunc"), [("maxnumf", np.maximum), ("minnumf", np.minimum)])
def test_a_type_without_nan(operation: str, ufunc: Any) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (3, 37)).astype(ml_dtypes.float4_e2m1fn)
    got = rows(operation, "f4E2M1FN").call("f", x, np.zeros(3, x.dtype)).results[0]
    np.testing.assert_array_equal(got.astype("f4"), ufunc(ufunc.reduce(x.astype("f4"), 1), 0))


MASKED = {
    **{kind: ("f32", ufunc) for kind, ufunc in EXTREMES.items()},
    "add": ("f32", np.add),
    "mul": ("f32", np.multiply),
    "and": ("i32", np.bitwise_and),
    "or": ("i32", np.bitwise_or),
    "xor": ("i32", np.bitwise_xor),
    "maxsi": ("i32", np.maximum),
    "minsi": ("i32", np.minimum),
    "maxui": ("i32", np.maximum),
    "minui": ("i32", np.minimum),
}


def masked(kind: str, element: str) -> str:
    """A function that puts the first elements of eight together."""
    zero = "0.0" if element == "f32" else "0"
    return f"""
func.func @{kind}(%x: memref<8x{element}>, %n: index, %out: memref<1x{element}>) {{
  %c0 = arith.constant 0 : index
  %p = arith.constant {zero} : {element}
  %m = vector.create_mask %n : vector<8xi1>
  %v = vector.transfer_read %x[%c0], %p {{in_bounds = [true]}} : memref<8x{element}>, vector<8x{element}>
  %r = vector.mask %m {{ vector.reduction <{kind}>, %v : vector<8x{element}> into {element} }}
      : vector<8xi1> -> {element}
  memref.store %r, %out[%c0] : memref<1x{element}>
  return
}}"""


@functools.cache
def masked_reductions() -> Program:
    return build("".join(masked(kind, element) for kind, (element, _) in MASKED.items()))


@pytest.mark.parametrize("kind", MASKED)
def test_masked_elements_do_not_count(kind: str) -> None:
    element, ufunc = MASKED[kind]
    unsigned = kind in ("maxui", "minui")
    rows: list[Any] = [[5, 3, 9, 6, 1, 0, 7, 2], [-5, -3, -9, -6, -1, 0, -7, -2]]
    rows += [[np.nan] * 7 + [1]] if element == "f32" else []
    for x in (np.array(row, "f4" if element == "f32" else "i4") for row in rows):
        for count in (1, 3, 7, 8):
            out = np.zeros(1, x.dtype)
            masked_reductions().call(kind, x, count, out)
            first = x[:count].view("u4") if unsigned else x[:count]
            np.testing.assert_array_equal(out, ufunc.reduce(first).astype(x.dtype, casting="unsafe"))
