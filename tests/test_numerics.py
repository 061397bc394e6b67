"""What reductions and arithmetic in narrow types compute, on the CPU, against numpy in f32."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy
import pytest
from cpurun import Program, build

from aot.lower.tensor import Options

NARROW = {
    "f16": numpy.dtype(numpy.float16),
    "bf16": numpy.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": numpy.dtype(ml_dtypes.float8_e5m2),
}
SUM = """
func.func @f(%x: tensor<?x{k}>) -> tensor<{k}> {{
  %z = arith.constant 0.0 : {k}
  %e = tensor.empty() : tensor<{k}>
  %i = linalg.fill ins(%z : {k}) outs(%e : tensor<{k}>) -> tensor<{k}>
  %r = linalg.reduce ins(%x : tensor<?x{k}>) outs(%i : tensor<{k}>) dimensions = [0]
    (%a: {k}, %o: {k}) {{ %s = arith.addf %a, %o : {k} linalg.yield %s : {k} }}
  return %r : tensor<{k}>
}}"""
SUM_ON_MEMREFS = """
func.func @f(%x: memref<?x{k}>, %o: memref<{k}>) {{
  linalg.reduce ins(%x : memref<?x{k}>) outs(%o : memref<{k}>) dimensions = [0]
    (%a: {k}, %b: {k}) {{ %s = arith.addf %a, %b : {k} linalg.yield %s : {k} }}
  return
}}"""
MATMUL = """
func.func @f(%a: tensor<?x?x{k}>, %b: tensor<?x?x{k}>, %c: tensor<?x?x{k}>) -> tensor<?x?x{k}> {{
  %r = linalg.matmul ins(%a, %b : tensor<?x?x{k}>, tensor<?x?x{k}>) outs(%c : tensor<?x?x{k}>) -> tensor<?x?x{k}>
  return %r : tensor<?x?x{k}>
}}"""


def f32(array: numpy.ndarray) -> numpy.ndarray:
    return array.astype(numpy.float32)


@pytest.mark.parametrize("kind", NARROW)
def test_a_sum_is_rounded_once(kind: str) -> None:
    x = numpy.full(4096, 2.0**-10 * 1.25).astype(NARROW[kind])
    want = f32(x).sum().astype(NARROW[kind])
    assert build(SUM.format(k=kind)).call("f", x).results[0] == want
    out = numpy.ones((), NARROW[kind])
    build(SUM_ON_MEMREFS.format(k=kind)).call("f", x, out)
    assert out == (f32(x).sum() + 1).astype(NARROW[kind])


def test_strict_accumulation_is_an_option() -> None:
    x = numpy.full(4096, 0.001, numpy.float16)
    strict = build(SUM.format(k="f16"), options=Options(wide_accumulation=False)).call("f", x).results[0]
    assert strict == 4.0
    assert build(SUM.format(k="f16")).call("f", x).results[0] == f32(x).sum().astype(numpy.float16) != strict


@pytest.mark.parametrize("kind", NARROW)
def test_products_and_their_sums_are_rounded_once(kind: str) -> None:
    rng = numpy.random.default_rng(2)
    a, b, c = (
        rng.integers(-8, 9, shape).astype(NARROW[kind]) / NARROW[kind].type(4) for shape in ((5, 33), (33, 7), (5, 7))
    )
    want = (f32(c) + f32(a) @ f32(b)).astype(NARROW[kind])
    got = build(MATMUL.format(k=kind)).call("f", a, b, c)
    numpy.testing.assert_array_equal(got.results[0].astype("f4"), want.astype("f4"))
    # The third operand is where the result goes.
    numpy.testing.assert_array_equal(c.astype("f4"), want.astype("f4"))


ARITHMETIC: list[tuple[str, str, Callable[..., numpy.ndarray]]] = [
    ("sum", "%r = arith.addf %a, %b : {k}", lambda a, b: a + b),
    ("product", "%r = arith.mulf %a, %b : {k}", lambda a, b: a * b),
    ("negation", "%r = arith.negf %a : {k}", lambda a, b: -a),
    ("maximum", "%r = arith.maximumf %a, %b : {k}", numpy.maximum),
    (
        "choice",
        "%c = arith.cmpf olt, %a, %b : {k} %r = arith.select %c, %a, %b : {k}",
        lambda a, b: numpy.where(a < b, a, b),
    ),
    ("exponential", "%r = math.exp %a : {k}", lambda a, b: numpy.exp(a)),
    ("constant", "%c = arith.constant 1.5 : {k} %r = arith.mulf %a, %c : {k}", lambda a, b: a * numpy.float32(1.5)),
    (
        "from integers",
        "%i = arith.fptosi %a : {k} to i32 %r = arith.sitofp %i : i32 to {k}",
        lambda a, b: numpy.trunc(a),
    ),
]
POINTWISE = """
func.func @{name}(%x: tensor<?x{{k}}>, %y: tensor<?x{{k}}>) -> tensor<?x{{k}}> {{{{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x{{k}}>
  %e = tensor.empty(%n) : tensor<?x{{k}}>
  %q = linalg.map ins(%x, %y : tensor<?x{{k}}>, tensor<?x{{k}}>) outs(%e : tensor<?x{{k}}>)
      (%a: {{k}}, %b: {{k}}, %o: {{k}}) {{{{
    {body}
    linalg.yield %r : {{k}}
  }}}}
  return %q : tensor<?x{{k}}>
}}}}
"""


@pytest.fixture(scope="module", params=["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E4M3B11FNUZ"])
def arithmetic(request: pytest.FixtureRequest) -> tuple[str, Program]:
    text = "".join(POINTWISE.format(name=name.replace(" ", "_"), body=body) for name, body, _ in ARITHMETIC)
    return request.param, build(text.format(k=request.param))


@pytest.mark.parametrize(
    ("name", "reference"),
    [(name, reference) for name, _, reference in ARITHMETIC],
    ids=lambda x: x if isinstance(x, str) else "",
)
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
def test_arithmetic_of_small_floats(
    arithmetic: tuple[str, Program], name: str, reference: Callable[..., numpy.ndarray]
) -> None:
    kind = numpy.dtype(getattr(ml_dtypes, "float8_" + arithmetic[0][2:].lower()))
    codes = numpy.arange(256, dtype=numpy.uint8).view(kind)
    if name == "from integers":
        codes = codes[numpy.abs(f32(codes)) < 1000]
    x, y = numpy.repeat(codes, 16), numpy.tile(codes[::16], len(codes))[: 16 * len(codes)]
    got = arithmetic[1].call(name.replace(" ", "_"), x, y).results[0]
    want = reference(f32(x), f32(y)).astype(numpy.float32).astype(kind)
    same = (f32(got) == f32(want)) | (numpy.isnan(f32(got)) & numpy.isnan(f32(want)))
    assert same.all(), [(x[i], y[i], got[i], want[i]) for i in numpy.flatnonzero(~same)[:5]]


BRANCH = """
func.func @f(%x: tensor<?x?xf16>, %c: tensor<?xf16>) -> tensor<?xf16> {
  %z = arith.constant 0.0 : f16
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf16>) outs(%c : tensor<?xf16>) {
  ^bb0(%a: f16, %old: f16):
    %p = arith.cmpf ogt, %a, %z : f16
    %v = scf.if %p -> f16 {
      %q = arith.mulf %old, %a : f16
      scf.yield %q : f16
    } else {
      scf.yield %a : f16
    }
    %t = arith.addf %old, %v : f16
    linalg.yield %t : f16
  } -> tensor<?xf16>
  return %s : tensor<?xf16>
}"""


def test_a_sum_whose_branches_look_at_it() -> None:
    x = (numpy.random.default_rng(3).integers(-4, 5, (3, 5)) / 8).astype(numpy.float16)
    total = numpy.ones(3, numpy.float16)
    for column in x.T:
        total = total + numpy.where(column > 0, total * column, column)
    got = build(BRANCH).call("f", x, numpy.ones(3, numpy.float16)).results[0]
    numpy.testing.assert_array_equal(got, total)
