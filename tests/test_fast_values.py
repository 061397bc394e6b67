"""Values of the fast schedules at awkward sizes, on the CPU: threads that wait for each other are fibers there.

Both orders of threads are run where a block exchanges values: a result that depends on the order is a race.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpurun import Program, build
from kernelsources import sources

from aot.lower.tensor import Options
from aot.targets import archneed

DTYPES = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
STEPS = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
SHAPES = ((1, 1), (3, 5), (5, 16), (7, 33), (2, 1000), (3, 1001), (2, 2500), (1, 9000), (2, 17000), (0, 4), (3, 0))
LONG = (1, 60001)
"""A row that no block holds."""


@dataclass(frozen=True)
class Kernel:
    """A function of the benchmark with dynamic extents, and what it computes."""

    name: str
    source: Callable[[str, Any], str]
    exact: Callable[..., Any]
    weights: int = 0
    out: str = "full"
    """``full``, ``rows``, ``columns``, ``all``."""


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layernorm(x: Any, g: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def _rmsnorm(x: Any, g: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def _total(dimensions: str) -> Callable[[str, Any], str]:
    return lambda kind, shape: sources.total(kind, shape, dimensions)


KERNELS = (
    Kernel("softmax", sources.softmax, _softmax),
    Kernel("layernorm", functools.partial(sources.norm, "layernorm"), _layernorm, 2),
    Kernel("rmsnorm", functools.partial(sources.norm, "rmsnorm"), _rmsnorm, 1),
    Kernel("sum_rows", _total("1"), lambda x: x.sum(1), out="rows"),
    Kernel("sum_columns", _total("0"), lambda x: x.sum(0), out="columns"),
    Kernel("sum_all", _total("0, 1"), lambda x: x.sum(), out="all"),
    Kernel("transpose", sources.transpose, lambda x: x.T, out="turned"),
)
CASES = [(kernel, kind) for kernel in KERNELS for kind in ("f32", "f16")]


@functools.cache
def program(kernel: Kernel, kind: str) -> Program:
    text = sources._MAPS + kernel.source(kind, sources.Shape("dyn")).replace("KIND", f"tensor<?x?x{kind}>")
    return build(text, backwards=kind == "f16")


def result(kernel: Kernel, shape: tuple[int, int], dtype: Any) -> Any:
    m, n = shape
    extents = {"full": (m, n), "rows": (m,), "columns": (n,), "all": (), "turned": (n, m)}[kernel.out]
    return np.full(extents, np.nan, dtype)


@pytest.mark.parametrize(("kernel", "kind"), CASES, ids=[f"{k.name}-{kind}" for k, kind in CASES])
def test_values(kernel: Kernel, kind: str) -> None:
    random = np.random.default_rng(1)
    for shape in (*SHAPES, LONG):
        if shape[1] == 0 and kernel.out == "full":
            continue  # the reference has no mean or maximum of nothing
        x = random.standard_normal(shape).astype(DTYPES[kind])
        weights = [random.standard_normal(shape[1]).astype(DTYPES[kind]) for _ in range(kernel.weights)]
        out = result(kernel, shape, DTYPES[kind])
        got = program(kernel, kind).call(f"{kernel.name}_dyn", x, *weights, out).results[0]
        with np.errstate(all="ignore"):
            want = kernel.exact(*(each.astype("f8") for each in (x, *weights)))
        scale = np.sqrt(max(1, x.size)) if kernel.name.startswith("sum") else 1.0
        np.testing.assert_allclose(
            got.astype("f8"), want, rtol=STEPS[kind], atol=STEPS[kind] * scale, err_msg=str(shape)
        )


STATIC = (40, 520, 776, 1601, 2304, 11008)
"""Columns that take blocks of one warp and of several, not all of them powers of two."""


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_rows_of_known_length(kind: str) -> None:
    shapes = [sources.Shape(f"n{n}", 3, n) for n in STATIC]
    built = build(sources._MAPS + "".join(sources.softmax(kind, shape) for shape in shapes))
    for n in STATIC:
        x = np.random.default_rng(n).standard_normal((3, n)).astype(DTYPES[kind])
        got = built.call(f"softmax_n{n}", x, np.full_like(x, np.nan)).results[0]
        np.testing.assert_allclose(got.astype("f8"), _softmax(x.astype("f8")), rtol=STEPS[kind], atol=1e-7)


SHARED_ROWS = [(kernel, need) for kernel in KERNELS[:2] for need in ("sm_90", "sm_90a")] + [(KERNELS[3], "sm_90a")]


@pytest.mark.parametrize(("kernel", "need"), SHARED_ROWS, ids=[f"{kernel.name}-{need}" for kernel, need in SHARED_ROWS])
def test_blocks_that_share_a_row(kernel: Kernel, need: str) -> None:
    """Where the device has clusters: few long rows, with and without columns around their vectors."""
    assert f'aot.needs = "{need}"' in program(kernel, "f32").ir
    random = np.random.default_rng(6)
    served = ctypes.c_int32.in_dll(program(kernel, "f32").library, "cpurun_serves")
    served.value = archneed.code(need)
    for shape in ((1, 40000), (2, 33333)):
        x = random.standard_normal(shape).astype("f4")
        weights = [random.standard_normal(shape[1]).astype("f4") for _ in range(kernel.weights)]
        out = result(kernel, shape, "f4")
        got = program(kernel, "f32").call(f"{kernel.name}_dyn", x, *weights, out).results[0]
        want = kernel.exact(*(each.astype("f8") for each in (x, *weights)))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3 if kernel.out == "rows" else 1e-5)
    served.value = 0


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_the_first_of_equal_places_is_found(kind: str) -> None:
    text = sources._MAPS + sources.argmax(kind, sources.Shape("dyn")).replace("KIND", f"tensor<?x?x{kind}>")
    built = build(text)
    served = ctypes.c_int32.in_dll(built.library, "cpurun_serves")
    random = np.random.default_rng(2)
    for m, n in ((1, 1), (4, 7), (3, 40), (2, 1001), (3, 4096), (1, 40000)):
        x = random.integers(-3, 4, (m, n)).astype(DTYPES[kind])
        x[0, n // 2] = np.nan
        served.value = archneed.code("sm_90a") if n > 4096 else 0
        got = built.call("argmax_dyn", x, np.full(m, -7)).results[0]
        want = np.where(np.isnan(x.astype("f4")), -np.inf, x.astype("f4")).argmax(1)
        np.testing.assert_array_equal(got, want)


EXTREMES = """
func.func @f(%x: tensor<?x?xf8E4M3FN>, %o: tensor<?xf8E4M3FN>) -> tensor<?xf8E4M3FN> {
  %y = linalg.reduce { arith.maximumf } ins(%x : tensor<?x?xf8E4M3FN>) outs(%o : tensor<?xf8E4M3FN>) dimensions = [1]
  return %y : tensor<?xf8E4M3FN>
}"""


def test_the_largest_of_a_type_without_infinities() -> None:
    """Also where blocks of a cluster exchange it."""
    built, random = build(EXTREMES), np.random.default_rng(10)
    served = ctypes.c_int32.in_dll(built.library, "cpurun_serves")
    for shape in ((3, 7), (2, 1001), (1, 40000)):
        x = random.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)
        served.value = archneed.code("sm_90") if shape[1] > 1001 else 0
        got = built.call("f", x, np.full(shape[0], -400, x.dtype)).results[0]
        np.testing.assert_array_equal(got.astype("f4"), x.astype("f4").max(1))


def test_rows_of_infinities_and_nans() -> None:
    x = np.zeros((4, 1000), "f4")
    x[0] = -np.inf
    x[1, 3] = np.nan
    x[2, 5] = np.inf
    got = program(KERNELS[0], "f32").call("softmax_dyn", x, np.zeros_like(x)).results[0]
    assert np.isnan(got[:3]).all()
    np.testing.assert_allclose(got[3], 1e-3, rtol=1e-5)


def test_rows_that_do_not_begin_at_a_vector() -> None:
    memory = np.random.default_rng(3).standard_normal(3 * 1000 + 1).astype("f4")
    x = memory[1:].reshape(3, 1000)
    got = program(KERNELS[0], "f32").call("softmax_dyn", x, np.zeros_like(x)).results[0]
    np.testing.assert_allclose(got, _softmax(x.astype("f8")), rtol=1e-5)


def test_a_row_of_a_few_columns_more_than_whole_vectors_take() -> None:
    """As many vectors as the threads of the largest block hold, and what is around them."""
    x = np.random.default_rng(11).standard_normal((2, 8195)).astype("f4")
    got = program(KERNELS[0], "f32").call("softmax_dyn", x, np.full_like(x, np.nan)).results[0]
    np.testing.assert_allclose(got, _softmax(x.astype("f8")), rtol=1e-5)


ROW_WORK = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @in_place(%x: memref<?x?xf32>, %s: memref<?xf32>) {
  linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x?xf32>) outs(%s : memref<?xf32>) {
  ^bb0(%v: f32, %a: f32):
    %r = arith.addf %v, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%s : memref<?xf32>) outs(%x : memref<?x?xf32>) {
  ^bb0(%a: f32, %v: f32):
    %r = arith.divf %v, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x?xf32>) outs(%s : memref<?xf32>) {
  ^bb0(%v: f32, %a: f32):
    %r = arith.addf %v, %a : f32
    linalg.yield %r : f32
  }
  return
}
func.func @overlapping(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) {
  linalg.exp ins(%a : memref<?xf32>) outs(%b : memref<?xf32>)
  linalg.negf ins(%a : memref<?xf32>) outs(%c : memref<?xf32>)
  return
}
func.func @parts(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %l = tensor.extract_slice %x[0] [48] [1] : tensor<64xf32> to tensor<48xf32>
  %m = math.exp %l : tensor<48xf32>
  %f = tensor.insert_slice %m into %x[0] [48] [1] : tensor<48xf32> into tensor<64xf32>
  %u = tensor.extract_slice %f[16] [48] [1] : tensor<64xf32> to tensor<48xf32>
  %n = math.absf %u : tensor<48xf32>
  %g = tensor.insert_slice %n into %f[0] [48] [1] : tensor<48xf32> into tensor<64xf32>
  return %g : tensor<64xf32>
}"""


@pytest.mark.parametrize("columns", [8, 37, 1000, 30001])
def test_a_row_that_is_overwritten(columns: int) -> None:
    x = np.random.default_rng(4).random((5, columns)).astype("f4") + 1
    s, kept = np.ones(5, "f4"), x.copy()
    _rows().call("in_place", x, s)
    total = kept.astype("f8").sum(1) + 1
    np.testing.assert_allclose(x, kept / total[:, None], rtol=1e-5)
    np.testing.assert_allclose(s, total + kept.astype("f8").sum(1) / total, rtol=1e-5)


@pytest.mark.parametrize("least", [-149, -140, -130, -120, -100, -80, -60])
def test_quotients_by_tiny_numbers_are_rounded_once(least: int) -> None:
    """The smallest divisors have no inverse, and what corrects a quotient is smaller still. These sums are exact."""
    x = np.ldexp(np.random.default_rng(9).integers(0, 100, (5, 1000)).astype("f4"), least)
    s, kept = np.zeros(5, "f4"), x.copy()
    _rows().call("in_place", x, s)
    np.testing.assert_array_equal(x, kept / kept.sum(1)[:, None])


def test_arguments_that_are_one_array() -> None:
    a, c = np.linspace(0, 1, 1003).astype("f4"), np.zeros(1003, "f4")
    first = a.copy()
    _rows().call("overlapping", a, a, c)
    np.testing.assert_allclose(a, np.exp(first), rtol=1e-6)
    np.testing.assert_array_equal(c, -a)


def test_parts_that_overlap() -> None:
    x = np.linspace(-2, 2, 64).astype("f4")
    want = x.copy()
    want[:48] = np.exp(want[:48])
    want[:48] = np.abs(want[16:])
    np.testing.assert_allclose(_rows().call("parts", x).results[0], want, rtol=1e-6)


@functools.cache
def _rows() -> Program:
    return build(ROW_WORK)


BY_THE_LARGEST = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<?x64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %low = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%rows) : tensor<?xf32>
  %g = linalg.fill ins(%low : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %m = linalg.reduce { arith.maxnumf } ins(%x : tensor<?x64xf32>) outs(%g : tensor<?xf32>) dimensions = [1]
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<?x64xf32>, tensor<?xf32>) outs(%out : tensor<?x64xf32>) {
  ^bb0(%v: f32, %b: f32, %o: f32):
    %r = arith.divf %v, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
"""


def test_quotients_are_those_of_a_division() -> None:
    random = np.random.default_rng(7)
    x = (random.standard_normal((400, 64)) * 10.0 ** random.integers(-12, 12, (400, 64))).astype("f4")
    x[0, :4] = [0.0, -0.0, np.inf, -np.inf]
    x[1, :3] = [-0.0, np.nan, 3e38]
    x[2] = -0.0
    x[3] = random.integers(0, 1000, 64) * np.float32(1e-45)
    x[4] = -np.abs(x[4])
    got = build(BY_THE_LARGEST).call("f", x, np.zeros_like(x)).results[0]
    with np.errstate(all="ignore"):
        want = x / np.nanmax(x, 1, keepdims=True)
    exact = np.abs(want) > 1e-30
    np.testing.assert_array_equal(got[exact], want[exact])
    np.testing.assert_allclose(got, want, rtol=2e-7, atol=3e-45)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


def test_a_native_sum_keeps_its_order() -> None:
    """Halves that add up in their own type stand still at 4; slices of the sum would go on."""
    text = """
    func.func @f(%x: tensor<?xf16>) -> tensor<f16> {
      %zero = arith.constant 0.0 : f16
      %empty = tensor.empty() : tensor<f16>
      %start = linalg.fill ins(%zero : f16) outs(%empty : tensor<f16>) -> tensor<f16>
      %sum = linalg.reduce { arith.addf } ins(%x : tensor<?xf16>) outs(%start : tensor<f16>) dimensions = [0]
      return %sum : tensor<f16>
    }
    """
    x = np.full(4096, 0.001, np.float16)
    assert build(text, options=Options(wide_accumulation=False)).call("f", x).results[0] == 4.0


ERROR_FUNCTION = """
func.func @f(%x: tensor<?xf32>, %o: tensor<?xTYPE>) -> tensor<?xTYPE> {
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%o : tensor<?xTYPE>) {
  ^bb0(%v: f32, %old: TYPE):
    %e = math.erf %v : f32
    %s = arith.addf %e, %one : f32
    %n = arith.truncf %VALUE : f32 to TYPE
    linalg.yield %n : TYPE
  } -> tensor<?xTYPE>
  return %y : tensor<?xTYPE>
}"""


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("value", ["e", "s"])
def test_the_error_function_of_narrow_results_is_rounded_almost_as_the_exact_one(kind: str, value: str) -> None:
    """Half a step of the result, and a tenth of that; one more than it has the steps of f32 near one."""
    text = ERROR_FUNCTION.replace("TYPE", kind).replace("%VALUE", f"%{value}")
    built = build(text.replace("%y =", "%one = arith.constant 1.0 : f32\n  %y =", 1))
    x = np.concatenate([np.linspace(-6, 6, 20001), np.geomspace(1e-30, 1, 5000), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    x = x.astype("f4")
    got = built.call("f", x, np.zeros(x.size, DTYPES[kind])).results[0].astype("f8")
    want = np.array([math.erf(each) for each in x.astype("f8")]) + (value == "s")
    digits, least = {"f16": (11, 2.0**-14), "bf16": (8, 2.0**-126)}[kind]
    step = 2.0 ** np.floor(np.log2(np.maximum(np.abs(want), least))) * 2.0 ** (1 - digits)
    np.testing.assert_array_less(np.abs(got - want)[:-1], (0.55 * step + (2.0**-23 if value == "s" else 0))[:-1])
    assert np.isnan(got[-1])
    assert not np.signbit(got[-5])
    assert np.signbit(got[-4]) == (value == "e")


BIAS = """
func.func @f(%x: tensor<?x?xTYPE>, %b: tensor<?xTYPE>, %o: tensor<?x?xTYPE>) -> tensor<?x?xTYPE> {
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<?x?xTYPE>, tensor<?xTYPE>) outs(%o : tensor<?x?xTYPE>) {
  ^bb0(%v: TYPE, %w: TYPE, %old: TYPE):
    %s = arith.addf %v, %w : TYPE
    linalg.yield %s : TYPE
  } -> tensor<?x?xTYPE>
  return %y : tensor<?x?xTYPE>
}"""


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_a_bias_of_few_elements_and_of_many(kind: str) -> None:
    """Kernels of their own for rows of whole vectors; others cross the ends of rows, which may be shorter than one."""
    built, random = build(BIAS.replace("TYPE", kind)), np.random.default_rng(11)
    assert built.ir.count("gpu.launch blocks") == 4
    for shape in ((1, 1), (7, 3), (5, 8), (9, 1001), (600, 2000), (1100, 1023)):
        x, b = (random.standard_normal(extents).astype(DTYPES[kind]) for extents in (shape, shape[1:]))
        got = built.call("f", x, b, np.full_like(x, np.nan)).results[0]
        np.testing.assert_array_equal(got, x + b)
