"""Programs as front ends write them: transposed weights, dimensions that reductions keep, squares as powers, heads.

What they become is as fast as what a person would have written, and right.
"""

from __future__ import annotations

import re
from typing import Any

import cpucall
import numpy as np
import pytest
from cpurun import build

from aot import mlir
from aot.lower import tensor
from aot.lower.tensor import Options


def on_cpu(text: str, *arguments: Any) -> list[Any]:
    """Results of the function ``f`` of a source's CPU code."""
    return cpucall.build(text, cpucall.runnable()[0]).call("f", *arguments).results


def scheduled(ir: str) -> list[str]:
    """Names of all schedules in a lowered module, in order."""
    return [part.partition('"')[0] for part in ir.split('aot.schedule = "')[1:]]


LINEAR = """
func.func @f(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x?xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %w, %c0 : tensor<?x?xf32>
  %k = tensor.dim %w, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%k, %n) : tensor<?x?xf32>
  %t = {transpose}
  %o = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%x, %t : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}}
"""
TRANSPOSES = {
    "named": "linalg.transpose ins(%w : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) permutation = [1, 0]",
    "generic": """linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%w : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
    ^bb0(%v: f32, %old: f32):
      linalg.yield %v : f32
    } -> tensor<?x?xf32>""",
}


@pytest.mark.parametrize("transpose", TRANSPOSES.values(), ids=TRANSPOSES)
def test_transposed_weights_are_not_copied(transpose: str) -> None:
    text = LINEAR.format(transpose=transpose)
    program = build(text)
    assert set(scheduled(program.ir)) <= {"ffma", "matvec", "combine"}
    random = np.random.default_rng(1)
    for m, n, k in ((1, 9, 20), (33, 20, 17), (5, 1, 3)):
        x, w = random.standard_normal((m, k)).astype("f4"), random.standard_normal((n, k)).astype("f4")
        for got in (program.call("f", x, w).results[0], on_cpu(text, x, w)[0]):
            np.testing.assert_allclose(got, x.astype("f8") @ w.T, rtol=1e-4, atol=1e-5)


HEADS = """
func.func @f(%x: tensor<6x2x8xf16>, %y: tensor<2x8x5xf16>, %w: tensor<9x10xf16>) -> tensor<6x9xf16> {
  %z = arith.constant 0.0 : f16
  %ex = tensor.empty() : tensor<2x6x8xf16>
  %h = linalg.transpose ins(%x : tensor<6x2x8xf16>) outs(%ex : tensor<2x6x8xf16>) permutation = [1, 0, 2]
  %eo = tensor.empty() : tensor<2x6x5xf16>
  %fo = linalg.fill ins(%z : f16) outs(%eo : tensor<2x6x5xf16>) -> tensor<2x6x5xf16>
  %o = linalg.batch_matmul ins(%h, %y : tensor<2x6x8xf16>, tensor<2x8x5xf16>) outs(%fo : tensor<2x6x5xf16>)
    -> tensor<2x6x5xf16>
  %et = tensor.empty() : tensor<6x2x5xf16>
  %t = linalg.transpose ins(%o : tensor<2x6x5xf16>) outs(%et : tensor<6x2x5xf16>) permutation = [1, 0, 2]
  %c = tensor.collapse_shape %t [[0], [1, 2]] : tensor<6x2x5xf16> into tensor<6x10xf16>
  %ew = tensor.empty() : tensor<10x9xf16>
  %wt = linalg.transpose ins(%w : tensor<9x10xf16>) outs(%ew : tensor<10x9xf16>) permutation = [1, 0]
  %er = tensor.empty() : tensor<6x9xf16>
  %fr = linalg.fill ins(%z : f16) outs(%er : tensor<6x9xf16>) -> tensor<6x9xf16>
  %r = linalg.matmul ins(%c, %wt : tensor<6x10xf16>, tensor<10x9xf16>) outs(%fr : tensor<6x9xf16>) -> tensor<6x9xf16>
  return %r : tensor<6x9xf16>
}
"""


def test_heads_are_transposed_and_projected() -> None:
    program = build(HEADS, options=Options(capabilities=((8, 0),)))
    assert "general" not in scheduled(program.ir)
    assert program.lowered.general.reasons == ()
    random = np.random.default_rng(2)
    x, y, w = (random.standard_normal(shape).astype("f2") for shape in ((6, 2, 8), (2, 8, 5), (9, 10)))
    heads = np.einsum("mhk,hkn->mhn", x.astype("f8"), y.astype("f8")).astype("f2")
    want = heads.reshape(6, 10).astype("f8") @ w.T.astype("f8")
    np.testing.assert_allclose(program.call("f", x, y, w).results[0].astype("f8"), want, rtol=4e-3, atol=4e-2)
    np.testing.assert_allclose(on_cpu(HEADS, x, y, w)[0].astype("f8"), want, rtol=4e-3, atol=4e-2)


KEPT = """
#full = affine_map<(i, j) -> (i, j)>
#kept = affine_map<(i, j) -> (i, 0)>
func.func @f(%x: tensor<?x?xf32>) -> {result} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m) : tensor<?x1xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %max = linalg.generic {{indexing_maps = [#full, #kept], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x?xf32>) outs(%f : tensor<?x1xf32>) {{
  ^bb0(%v: f32, %old: f32):
    %a = arith.maximumf %v, %old : f32
    linalg.yield %a : f32
  }} -> tensor<?x1xf32>
  %ee = tensor.empty(%m, %n) : tensor<?x?xf32>
  %exp = linalg.generic {{indexing_maps = [#full, #kept, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %max : tensor<?x?xf32>, tensor<?x1xf32>) outs(%ee : tensor<?x?xf32>) {{
  ^bb0(%v: f32, %most: f32, %old: f32):
    %d = arith.subf %v, %most : f32
    %a = math.exp %d : f32
    linalg.yield %a : f32
  }} -> tensor<?x?xf32>
  %g = linalg.fill ins(%z : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %sum = linalg.generic {{indexing_maps = [#full, #kept], iterator_types = ["parallel", "reduction"]}}
      ins(%exp : tensor<?x?xf32>) outs(%g : tensor<?x1xf32>) {{
  ^bb0(%v: f32, %old: f32):
    %a = arith.addf %v, %old : f32
    linalg.yield %a : f32
  }} -> tensor<?x1xf32>
  %r = linalg.generic {{indexing_maps = [#full, #kept, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%exp, %sum : tensor<?x?xf32>, tensor<?x1xf32>) outs(%ee : tensor<?x?xf32>) {{
  ^bb0(%v: f32, %all: f32, %old: f32):
    %a = arith.divf %v, %all : f32
    linalg.yield %a : f32
  }} -> tensor<?x?xf32>
  return {returned} : {result}
}}
"""


@pytest.mark.parametrize("returned", ["%r", "%sum", "%r, %max"], ids=["used only", "returned", "both"])
def test_dimensions_that_reductions_keep(returned: str) -> None:
    kinds = {"%r": "tensor<?x?xf32>", "%sum": "tensor<?x1xf32>", "%max": "tensor<?x1xf32>"}
    types = ", ".join(kinds[name] for name in returned.split(", "))
    text = KEPT.format(result=f"({types})", returned=returned).replace(f": ({types})\n}}", f": {types}\n}}")
    program = build(text)
    if returned == "%r":
        assert "region = 2" not in program.ir
        assert {"general", "pointwise"}.isdisjoint(scheduled(program.ir))
    for shape in ((1, 1), (5, 33), (3, 1000), (0, 4)):
        x = np.random.default_rng(3).standard_normal(shape).astype("f4")
        most = x.max(1, keepdims=True).astype("f8") if shape[1] else None
        e = np.exp(x - most)
        want = {"%r": e / e.sum(1, keepdims=True), "%sum": e.sum(1, keepdims=True), "%max": most}
        for got in (program.call("f", x).results, on_cpu(text, x)):
            for name, each in zip(returned.split(", "), got, strict=True):
                np.testing.assert_allclose(each, want[name], rtol=1e-5, atol=1e-6)


LONGER = """
#full = affine_map<(i, j) -> (i, j)>
#first = affine_map<(i, j) -> (0, i)>
func.func @f(%x: tensor<?x?xf32>, %rows: index) -> tensor<?x?xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty({sizes}) : {kind}
  %f = linalg.fill ins(%z : f32) outs(%e : {kind}) -> {kind}
  %s = linalg.generic {{indexing_maps = [#full, #first], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x?xf32>) outs(%f : {kind}) {{
  ^bb0(%v: f32, %old: f32):
    %a = arith.addf %v, %old : f32
    linalg.yield %a : f32
  }} -> {kind}
  %eo = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.generic {{indexing_maps = [#full, affine_map<(i, j) -> ({read}, i)>, #full],
      iterator_types = ["parallel", "parallel"]}}
      ins(%x, %s : tensor<?x?xf32>, {kind}) outs(%eo : tensor<?x?xf32>) {{
  ^bb0(%v: f32, %t: f32, %old: f32):
    %a = arith.subf %v, %t : f32
    linalg.yield %a : f32
  }} -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}}
"""


@pytest.mark.parametrize("kind", ["tensor<?x?xf32>", "tensor<4x?xf32>"])
@pytest.mark.parametrize(("read", "rows"), [("0", 1), ("0", 4), ("j", 4)])
def test_a_dimension_that_may_be_longer_is_kept(kind: str, read: str, rows: int) -> None:
    """The sums are in its first place, and nothing in the others."""
    text = LONGER.format(kind=kind, read=read, sizes="%rows, %m" if "<?" in kind else "%m")
    x = np.arange(12, dtype="f4").reshape(3, 4)
    want = x - x.sum(1, keepdims=True) * (1 if read == "0" else np.array([1, 0, 0, 0], "f4"))
    for got in (build(text).call("f", x, rows).results[0], on_cpu(text, x, rows)[0]):
        np.testing.assert_array_equal(got, want)


TWICE = """
#full = affine_map<(i, j) -> (i, j)>
#kept = affine_map<(i, j) -> (i, 0)>
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {{
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %e = tensor.empty(%m) : tensor<?x1xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %s = linalg.generic {{indexing_maps = [#full, #kept], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x?xf32>) outs(%f : tensor<?x1xf32>) {{
  ^bb0(%v: f32, %old: f32):
    %a = arith.addf %v, %old : f32
    linalg.yield %a : f32
  }} -> tensor<?x1xf32>
  %eo = tensor.empty(%m, %m) : tensor<?x?xf32>
  %fo = linalg.fill ins(%z : f32) outs(%eo : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, k, j) -> (i, {first})>, affine_map<(i, k, j) -> (k, {second})>,
      affine_map<(i, k, j) -> (i, k)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%s, %s : tensor<?x1xf32>, tensor<?x1xf32>) outs(%fo : tensor<?x?xf32>) {{
  ^bb0(%v: f32, %w: f32, %old: f32):
    %p = arith.{combined} %v, %w : f32
    %a = arith.addf %p, %old : f32
    linalg.yield %a : f32
  }} -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}}
"""


@pytest.mark.parametrize("combined", ["mulf", "maximumf"])
@pytest.mark.parametrize(("first", "second"), [("j", "j"), ("j", "0"), ("0", "j")])
def test_a_kept_dimension_that_gives_a_loop_its_only_extent(combined: str, first: str, second: str) -> None:
    """Both operands are the same sums: without their dimension, nothing says how long the loop is."""
    text = TWICE.format(combined=combined, first=first, second=second)
    program = build(text)
    for shape in ((3, 5), (1, 1), (4, 0), (0, 3), (40, 7)):
        x = np.random.default_rng(4).standard_normal(shape).astype("f4")
        sums = x.astype("f8").sum(1, keepdims=True)
        want = sums @ sums.T if combined == "mulf" else np.maximum(sums, sums.T)
        for got in (program.call("f", x).results[0], on_cpu(text, x)[0]):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


POWER = """
func.func @f(%x: tensor<?x{kind}>{more}) -> tensor<?x{kind}> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x{kind}>
  %e = tensor.empty(%n) : tensor<?x{kind}>
  %r = linalg.map ins(%x : tensor<?x{kind}>) outs(%e : tensor<?x{kind}>) (%v: {kind}, %old: {kind}) {{
    {constant}
    %a = math.fpowi %v, %p : {kind}, {exponent}
    linalg.yield %a : {kind}
  }}
  return %r : tensor<?x{kind}>
}}
"""
CONSTANT = {2: "f32", 3: "f32", 10: "f32", 1: "f64", 0: "f32", -1: "f32", -2: "f64", 4: "f16", 5: "bf16"}


@pytest.mark.parametrize(("power", "kind"), CONSTANT.items())
@pytest.mark.parametrize("exponent", ["i64", "i32", "i8"])
def test_powers_that_are_known_are_multiplications(power: int, kind: str, exponent: str) -> None:
    ml_dtypes: Any = pytest.importorskip("ml_dtypes")
    storage = {"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}[kind]
    constant = f"%p = arith.constant {power} : {exponent}"
    text = POWER.format(kind=kind, exponent=exponent, constant=constant, more="")
    program = build(text)
    assert "math.fpowi" not in program.ir
    x = np.array([-2.5, -1, -0.5, 0.75, 1, 3], storage)
    step = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6, "f64": 1e-15}[kind]
    for got in (program.call("f", x).results[0], on_cpu(text, x)[0]):
        np.testing.assert_allclose(got.astype("f8"), x.astype("f8") ** power, rtol=step)


@pytest.mark.parametrize(
    ("kind", "exponent"), [("f32", "i64"), ("f64", "i64"), ("f16", "i8"), ("f32", "i32"), ("f32", "index")]
)
def test_powers_that_are_not_known_have_exponents_of_32_bits(kind: str, exponent: str) -> None:
    text = POWER.format(kind=kind, exponent=exponent, constant="", more=f", %p: {exponent}")
    with mlir.context() as ctx:
        lowered = str(tensor.lower(mlir.parse(text.encode(), "test.mlir", ctx), {}, Options(), mlir.no_dump).module)
    assert set(re.findall(r"math.fpowi .*\b(?:\d+x)?(i\d+)>?", lowered)) == (set() if kind == "f64" else {"i32"})
    assert ("math.powf" if kind == "f64" else "math.fpowi") in lowered
    storage = {"f16": "f2", "f32": "f4", "f64": "f8"}[kind]
    x = np.array([-1.5, -1, 0.5, 1, 2], storage)
    powers = [0, 1, 2, 3, -3, 9]
    if exponent in ("i64", "index"):
        powers += [1 << 40, -(1 << 40) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, (1 << 63) - 1, -(1 << 63)]
    for power in powers:
        with np.errstate(all="ignore"):
            want = (np.abs(x.astype("f8")) ** float(power) * np.sign(x) ** (power & 1)).astype(storage)
        got = on_cpu(text, x, power)[0]
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=2e-3)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_odd_powers_keep_the_sign(kind: str) -> None:
    """Of zeros and infinities, too, and by exponents of which f64 has no odd ones."""
    text = POWER.format(kind=kind, exponent="i64", constant="", more=", %p: i64")
    x = np.array([-0.0, 0.0, -1, 1, -np.inf, np.inf, np.nan], {"f32": "f4", "f64": "f8"}[kind])
    for power in (2, 3, -3, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1):
        with np.errstate(all="ignore"):
            size = np.abs(x) ** float(power)
        want = np.copysign(size, x) if power & 1 else size
        got = on_cpu(text, x, power)[0]
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))


NORM = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf16>
  %n = tensor.dim %x, %c1 : tensor<?x?xf16>
  %ew = tensor.empty(%m, %n) : tensor<?x?xf32>
  %wide = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf16>) outs(%ew : tensor<?x?xf32>) {
  ^bb0(%v: f16, %old: f32):
    %a = arith.extf %v : f16 to f32
    linalg.yield %a : f32
  } -> tensor<?x?xf32>
  %es = tensor.empty(%m) : tensor<?xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%wide : tensor<?x?xf32>) outs(%fs : tensor<?xf32>) {
  ^bb0(%v: f32, %old: f32):
    %s = arith.mulf %v, %v : f32
    %a = arith.addf %s, %old : f32
    linalg.yield %a : f32
  } -> tensor<?xf32>
  %eo = tensor.empty(%m, %n) : tensor<?x?xf16>
  %r = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%wide, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%eo : tensor<?x?xf16>) {
  ^bb0(%v: f32, %s: f32, %old: f16):
    %q = math.sqrt %s : f32
    %d = arith.divf %v, %q : f32
    %a = arith.truncf %d : f32 to f16
    linalg.yield %a : f16
  } -> tensor<?x?xf16>
  return %r : tensor<?x?xf16>
}
"""


def test_what_is_converted_before_a_norm_is_converted_in_its_kernel() -> None:
    program = build(NORM)
    assert "region = 2" not in program.ir
    assert {"general", "pointwise"}.isdisjoint(scheduled(program.ir))
    for shape in ((1, 3), (5, 33), (3, 1000)):
        x = np.random.default_rng(3).standard_normal(shape).astype("f2")
        want = x.astype("f8") / np.sqrt((x.astype("f8") ** 2).sum(1, keepdims=True))
        np.testing.assert_allclose(program.call("f", x).results[0].astype("f8"), want, rtol=2e-3, atol=1e-4)


PLACE = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<?x?x{kind}>) -> (tensor<?x{kind}>, tensor<?xi64>) {{
  %c0 = arith.constant 0 : index
  %least = arith.constant {least} : {kind}
  %none = arith.constant 7 : i64
  %m = tensor.dim %x, %c0 : tensor<?x?x{kind}>
  %e = tensor.empty(%m) : tensor<?x{kind}>
  %f = linalg.fill ins(%least : {kind}) outs(%e : tensor<?x{kind}>) -> tensor<?x{kind}>
  %ei = tensor.empty(%m) : tensor<?xi64>
  %fi = linalg.fill ins(%none : i64) outs(%ei : tensor<?xi64>) -> tensor<?xi64>
  %r:2 = linalg.generic {{indexing_maps = [#full, #row, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x?x{kind}>) outs(%f, %fi : tensor<?x{kind}>, tensor<?xi64>) {{
  ^bb0(%v: {kind}, %old: {kind}, %at: i64):
    %j = linalg.index 1 : index
    %i = arith.index_cast %j : index to i64
    %a = {extreme} %v, %old : {kind}
    %c = {compare} : {kind}
    %s = arith.select %c, %i, %at : i64
    linalg.yield %a, %s : {kind}, i64
  }} -> (tensor<?x{kind}>, tensor<?xi64>)
  return %r#0, %r#1 : tensor<?x{kind}>, tensor<?xi64>
}}
"""
EXTREMES = {
    "maximum": ("f32", "0xFF800000", "arith.maximumf", "arith.cmpf ogt, %v, %old"),
    "minimum, turned": ("f32", "0x7F800000", "arith.minimumf", "arith.cmpf ogt, %old, %v"),
    "from a number": ("f32", "5.0e-01", "arith.maximumf", "arith.cmpf ogt, %v, %old"),
    "integers": ("i32", "-2147483648", "arith.maxsi", "arith.cmpi sgt, %v, %old"),
}


def place_of(row: Any, start: Any, smaller: bool) -> tuple[Any, int]:
    """What the body does, element by element."""
    value, place = start, 7
    for number, each in enumerate(row):
        place = number if (each < value if smaller else each > value) else place
        value = np.minimum(value, each) if smaller else np.maximum(value, each)
    return value, place


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("kind", "least", "extreme", "compare"), EXTREMES.values(), ids=EXTREMES)
def test_places_of_extremes(kind: str, least: str, extreme: str, compare: str, backwards: bool) -> None:
    text = PLACE.format(kind=kind, least=least, extreme=extreme, compare=compare)
    program = build(text, backwards=backwards)
    assert "general" not in scheduled(program.ir)
    start = {"0xFF800000": -np.inf, "0x7F800000": np.inf}.get(least) or float(least)
    random = np.random.default_rng(4)
    for shape in ((1, 1), (6, 33), (3, 1001), (2, 9000), (2, 0)):
        x = random.integers(-9, 9, shape).astype("f4" if kind == "f32" else "i4")
        if kind == "f32" and shape[1] > 1:
            x[0, shape[1] // 2] = np.nan
            x[-1, :2] = np.nan, 100
        value, place = program.call("f", x).results
        want = [place_of(row, start, "min" in extreme) for row in x]
        np.testing.assert_array_equal(place, [each for _, each in want])
        np.testing.assert_array_equal(value, np.array([each for each, _ in want]).astype(x.dtype))


BESIDE = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>, %most: tensor<?xf32>, %found: tensor<?x{kind}>)
    -> (tensor<?xf32>, tensor<?x{kind}>) {{
  %last = arith.constant 99 : index
  %r:2 = linalg.generic {{indexing_maps = [#full, #full, #row, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%most, %found : tensor<?xf32>, tensor<?x{kind}>) {{
  ^bb0(%v: f32, %w: f32, %old: f32, %at: {kind}):
    %j = linalg.index 1 : index
    %behind = arith.subi %last, %j : index
    %b = {beside}
    %a = arith.maximumf %v, %old : f32
    %c = arith.cmpf ogt, %v, %old : f32
    %s = arith.select %c, %b, %at : {kind}
    linalg.yield %a, %s : f32, {kind}
  }} -> (tensor<?xf32>, tensor<?x{kind}>)
  return %r#0, %r#1 : tensor<?xf32>, tensor<?x{kind}>
}}
"""


@pytest.mark.parametrize(
    ("kind", "beside", "which"),
    [
        ("i64", "arith.index_cast %behind : index to i64", 0),
        ("f32", "arith.addf %w, %w : f32", 1),
        ("i8", "arith.index_cast %j : index to i8", 2),
    ],
    ids=["a falling number", "another value", "a number that wraps"],
)
def test_what_else_is_kept_of_an_extreme(kind: str, beside: str, which: int) -> None:
    """Not a place that grows along the row: then the order of the elements is that of the source."""
    x = np.zeros((3, 300), "f4")
    x[0, [1, 2]], x[1, [5, 7, 9]], x[2, [100, 200]] = [3, np.nan], [4, np.nan, 6], 8
    y = np.random.default_rng(8).standard_normal(x.shape).astype("f4")
    storage = {"i64": "i8", "f32": "f4", "i8": "i1"}[kind]
    got = build(BESIDE.format(kind=kind, beside=beside)).call("f", x, y, np.zeros(3, "f4"), np.zeros(3, storage))
    beside_of = (lambda i, j: 99 - j, lambda i, j: 2 * y[i, j], lambda i, j: j)[which]
    want = np.array([beside_of(i, j) for i, j in enumerate((1, 5, 100))])
    np.testing.assert_array_equal(got.results[1], want.astype(storage))
    np.testing.assert_array_equal(got.results[0], [np.nan, np.nan, 8])


TURNED_HALVES = """
func.func @f(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %a = tensor.extract_slice %x[0, 0] [5, 4] [1, 1] : tensor<5x8xf32> to tensor<5x4xf32>
  %b = tensor.extract_slice %x[0, 4] [5, 4] [1, 1] : tensor<5x8xf32> to tensor<5x4xf32>
  %n = arith.negf %b : tensor<5x4xf32>
  %r = tensor.concat dim(1) %n, %a : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x8xf32>
  return %r : tensor<5x8xf32>
}
"""


def test_parts_of_a_concatenation_are_computed_where_they_belong() -> None:
    program = build(TURNED_HALVES)
    assert program.ir.count("gpu.launch") == 2
    x = np.arange(40, dtype="f4").reshape(5, 8)
    done = program.call("f", x)
    np.testing.assert_array_equal(done.results[0], np.concatenate([-x[:, 4:], x[:, :4]], 1))
    assert done.allocations == 0


REPEATED = """
func.func @f(%x: tensor<?x?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?x?xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?x?xf32>
  %n = tensor.dim %w, %c0 : tensor<?x?xf32>
  %k = tensor.dim %w, %c1 : tensor<?x?xf32>
  %et = tensor.empty(%k, %n) : tensor<?x?xf32>
  %t = linalg.transpose ins(%w : tensor<?x?xf32>) outs(%et : tensor<?x?xf32>) permutation = [1, 0]
  %eb = tensor.empty(%b, %k, %n) : tensor<?x?x?xf32>
  %all = linalg.broadcast ins(%t : tensor<?x?xf32>) outs(%eb : tensor<?x?x?xf32>) dimensions = [0]
  %e = tensor.empty(%b, %m, %n) : tensor<?x?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %r = linalg.batch_matmul ins(%x, %all : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%f : tensor<?x?x?xf32>)
    -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}
"""


def test_weights_of_a_batch_are_not_repeated() -> None:
    program = build(REPEATED)
    assert set(scheduled(program.ir)) <= {"ffma", "matvec", "combine"}
    random = np.random.default_rng(5)
    x, w = random.standard_normal((3, 7, 20)).astype("f4"), random.standard_normal((9, 20)).astype("f4")
    for got in (program.call("f", x, w).results[0], on_cpu(REPEATED, x, w)[0]):
        np.testing.assert_allclose(got, x.astype("f8") @ w.T, rtol=1e-4, atol=1e-5)


CONVOLUTION = """
func.func @f(%x: tensor<1x4x6x6xf32>, %w: tensor<5x4x3x3xf32>) -> tensor<1x5x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5x3x3xf32>
  %t = linalg.transpose ins(%w : tensor<5x4x3x3xf32>) outs(%e : tensor<4x5x3x3xf32>) permutation = [1, 0, 2, 3]
  %eb = tensor.empty() : tensor<5x4x3x3xf32>
  %u = linalg.transpose ins(%t : tensor<4x5x3x3xf32>) outs(%eb : tensor<5x4x3x3xf32>) permutation = [1, 0, 2, 3]
  %eo = tensor.empty() : tensor<1x5x4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%eo : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %u : tensor<1x4x6x6xf32>, tensor<5x4x3x3xf32>)
    outs(%f : tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  return %r : tensor<1x5x4x4xf32>
}
"""


def test_convolutions_keep_their_filters() -> None:
    random = np.random.default_rng(6)
    x, w = random.standard_normal((1, 4, 6, 6)).astype("f4"), random.standard_normal((5, 4, 3, 3)).astype("f4")
    places = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (3, 3), (2, 3))
    want = np.einsum("nchwij,fcij->nfhw", places, w)
    np.testing.assert_allclose(build(CONVOLUTION).call("f", x, w).results[0], want, rtol=1e-4, atol=1e-4)


NORMED = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%a: tensor<16x32xf16>, %b: tensor<32x24xf16>) -> (tensor<16x24xf16>, tensor<16xf32>) {
  %z = arith.constant 0.0 : f16
  %zf = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x24xf16>
  %i = linalg.fill ins(%z : f16) outs(%e : tensor<16x24xf16>) -> tensor<16x24xf16>
  %x = linalg.matmul ins(%a, %b : tensor<16x32xf16>, tensor<32x24xf16>) outs(%i : tensor<16x24xf16>)
    -> tensor<16x24xf16>
  %ew = tensor.empty() : tensor<16x24xf32>
  %wide = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x24xf16>) outs(%ew : tensor<16x24xf32>) {
  ^bb0(%v: f16, %old: f32):
    %w = arith.extf %v : f16 to f32
    linalg.yield %w : f32
  } -> tensor<16x24xf32>
  %es = tensor.empty() : tensor<16xf32>
  %fs = linalg.fill ins(%zf : f32) outs(%es : tensor<16xf32>) -> tensor<16xf32>
  %most = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%wide : tensor<16x24xf32>) outs(%fs : tensor<16xf32>) {
  ^bb0(%v: f32, %old: f32):
    %s = arith.mulf %v, %v : f32
    %m = arith.addf %s, %old : f32
    linalg.yield %m : f32
  } -> tensor<16xf32>
  %s = linalg.generic {indexing_maps = [#full, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%wide, %most : tensor<16x24xf32>, tensor<16xf32>) outs(%fs : tensor<16xf32>) {
  ^bb0(%v: f32, %most_: f32, %old: f32):
    %d = arith.divf %v, %most_ : f32
    %m = arith.addf %d, %old : f32
    linalg.yield %m : f32
  } -> tensor<16xf32>
  return %x, %s : tensor<16x24xf16>, tensor<16xf32>
}
"""


def test_what_reads_a_product_converts_it() -> None:
    """The product is stored once: the norm behind it reads what it returns, and keeps no copy of it in f32."""
    program = build(NORMED, options=Options(capabilities=((8, 0),)))
    random = np.random.default_rng(7)
    a, b = random.standard_normal((16, 32)).astype("f2"), random.standard_normal((32, 24)).astype("f2")
    done = program.call("f", a, b)
    x = (a.astype("f8") @ b.astype("f8")).astype("f2")
    np.testing.assert_allclose(done.results[0].astype("f8"), x.astype("f8"), rtol=2e-3, atol=1e-3)
    wide = done.results[0].astype("f8")
    np.testing.assert_allclose(done.results[1], (wide / (wide**2).sum(1)[:, None]).sum(1), rtol=1e-4, atol=1e-5)
    assert "aot_rt_alloc(%c1536)" not in program.ir, "16 x 24 numbers of f32"


def test_heads_are_projected_from_where_their_product_stores_them() -> None:
    """No kernel between the two products: the first one writes what the second one reads, rounded and transposed."""
    ir = build(HEADS, options=Options(capabilities=((8, 0),))).ir
    assert set(scheduled(ir)) <= {"pack", "mma", "combine", "matvec"}


GATHERED = """
func.func @f(%x: tensor<?x?xf32>, %y: tensor<?xi64>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %y, %c0 : tensor<?xi64>
  %e = tensor.empty(%n) : tensor<?xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%y : tensor<?xi64>) outs(%e : tensor<?xf32>) {
  ^bb0(%q: i64, %old: f32):
    %r = linalg.index 0 : index
    %c = arith.index_cast %q : i64 to index
    %v = tensor.extract %x[%r, %c] : tensor<?x?xf32>
    %a = arith.negf %v : f32
    linalg.yield %a : f32
  } -> tensor<?xf32>
  %es = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%es : tensor<f32>) -> tensor<f32>
  %t = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%g : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%v: f32, %old: f32):
    %a = arith.addf %v, %old : f32
    linalg.yield %a : f32
  } -> tensor<f32>
  return %t : tensor<f32>
}
"""


def test_a_sum_of_gathered_elements_is_no_work_of_one_thread() -> None:
    program = build(GATHERED)
    assert {"general", "one-thread"}.isdisjoint(scheduled(program.ir))
    random = np.random.default_rng(8)
    for rows in (1, 100, 3001):
        x, y = random.standard_normal((rows, 7)).astype("f4"), random.integers(0, 7, rows)
        want = -x[np.arange(rows), y].sum(dtype="f8")
        np.testing.assert_allclose(program.call("f", x, y).results[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("extent", ["", "%d = tensor.dim %sum, %c0 : tensor<?xf32>"])
def test_extents_of_results_that_only_one_element_is_written_of(place: int, extent: str) -> None:
    text = f"""
    func.func @f(%x: tensor<?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {{
      %c0 = arith.constant 0 : index
      %sum = linalg.generic {{iterator_types = ["reduction"],
          indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ({place})>]}}
          ins(%x : tensor<?xf32>) outs(%out : tensor<?xf32>) {{
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
      }} -> tensor<?xf32>
      {extent}
      {"%e = tensor.empty(%d) : tensor<?xf32>" if extent else ""}
      %r = linalg.map {{ math.absf }} ins(%sum : tensor<?xf32>) outs({"%e" if extent else "%sum"} : tensor<?xf32>)
      return %r : tensor<?xf32>
    }}"""
    x, out = np.arange(5, dtype="f4"), -np.ones(3, "f4")
    want = np.ones(3, "f4")
    want[place] = 9
    for results in (build(text).call("f", x, out.copy()).results, on_cpu(text, x, out.copy())):
        np.testing.assert_array_equal(results[0], want)


IN_A_BRANCH = """
#x = affine_map<(h, n, d) -> (h, d)>
#r = affine_map<(h, n, d) -> (h, n)>
func.func @f(%x: tensor<6x8xf32>, %k: tensor<2x?x8xf32>, %like: tensor<6x?xf32>) -> tensor<6x?xf32> {
  %z = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %like, %c1 : tensor<6x?xf32>
  %there = tensor.dim %k, %c1 : tensor<2x?x8xf32>
  %e = tensor.empty(%n) : tensor<6x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x?xf32>) -> tensor<6x?xf32>
  %r = linalg.generic {indexing_maps = [#x, #r], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<6x8xf32>) outs(%f : tensor<6x?xf32>) {
  ^bb0(%a: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %d = linalg.index 2 : index
    %head = arith.divui %i, %c3 : index
    %is = arith.cmpi ult, %j, %there : index
    %y = scf.if %is -> f32 {
      %key = tensor.extract %k[%head, %j, %d] : tensor<2x?x8xf32>
      scf.yield %key : f32
    } else {
      scf.yield %z : f32
    }
    %p = arith.mulf %a, %y : f32
    %s = arith.addf %old, %p : f32
    linalg.yield %s : f32
  } -> tensor<6x?xf32>
  return %r : tensor<6x?xf32>
}
"""


@pytest.mark.parametrize("there", [4, 7, 9])
def test_factors_that_are_extracted_where_they_are_there(there: int) -> None:
    """Loops may run farther than what a branch extracts of."""
    random = np.random.default_rng(there)
    x, k = (random.standard_normal(shape).astype("f4") for shape in ((6, 8), (2, there, 8)))
    keys = np.zeros((6, 7, 8), "f4")
    keys[:, : min(there, 7)] = np.repeat(k[:, :7], 3, axis=0)
    got = build(IN_A_BRANCH).call("f", x, k, np.zeros((6, 7), "f4")).results[0]
    np.testing.assert_allclose(got, np.einsum("hd,hnd->hn", x, keys), rtol=1e-5, atol=1e-5)
