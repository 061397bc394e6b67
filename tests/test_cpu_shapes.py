"""CPU code at the edges of its tiles, strips and threads: sizes around them, layouts, special numbers."""

from __future__ import annotations

import functools
import re
from typing import Any

import cpucall
import numpy as np
import pytest

VARIANTS = cpucall.runnable()
Array = np.ndarray[Any, Any]


@functools.cache
def program(text: str, variant: str) -> cpucall.Program:
    return cpucall.build(text, variant)


def same(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Relative to the largest element: sums of random numbers cancel."""
    assert np.shape(got) == np.shape(expected)
    if np.size(expected):
        scale = max(1.0, float(np.max(np.abs(expected))))
        np.testing.assert_allclose(np.asarray(got, "f8"), np.asarray(expected, "f8"), 0, tolerance * scale)


# products of matrices: einsum -> maps

KINDS = {"f32": ("f4", "f32"), "f64": ("f8", "f64"), "f16": ("f2", "f32"), "i8": ("i1", "i32"), "i64": ("i8", "i64")}
WIDEN = {"f16": "arith.extf", "i8": "arith.extsi"}


def contraction(equation: str, kind: str) -> str:
    inputs, out = equation.split("->")
    terms = [*inputs.split(","), out]
    loops = sorted(set("".join(terms)))
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(term)})>" for term in terms)
    iterators = ", ".join('"parallel"' if each in out else '"reduction"' for each in loops)
    element, total = kind, KINDS[kind][1]
    types = [f"tensor<{'?x' * len(term)}{each}>" for term, each in zip(terms, (element, element, total), strict=True)]
    floating = total.startswith("f")
    extend = "".join(f"%w{n} = {WIDEN[kind]} %e{n} : {element} to {total}\n" for n in (0, 1)) if kind in WIDEN else ""
    factors = ("%w0", "%w1") if extend else ("%e0", "%e1")
    end = "f" if floating else "i"
    return f"""
func.func @f(%a: {types[0]}, %b: {types[1]}, %c: {types[2]}) -> {types[2]} {{
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins(%a, %b : {types[0]}, {types[1]}) outs(%c : {types[2]}) {{
  ^bb0(%e0: {element}, %e1: {element}, %e2: {total}):
    {extend}%p = arith.mul{end} {factors[0]}, {factors[1]} : {total}
    %s = arith.add{end} %e2, %p : {total}
    linalg.yield %s : {total}
  }} -> {types[2]}
  return %r : {types[2]}
}}"""


SIZES = [(1, 1, 1), (0, 8, 8), (40, 0, 40), (40, 40, 0), (4, 512, 8), (12, 32, 64), (13, 33, 65), (97, 31, 257)]
EQUATIONS = ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "mk,kn->nm", "bmk,bkn->bmn", "bmk,bnk->bmn", "mbk,nbk->bmn"]


@pytest.mark.parametrize("variant", VARIANTS[-1:])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_layouts_of_products(equation: str, variant: str) -> None:
    for m, n, k in SIZES:
        check_product(equation, "f32", {"m": m, "n": n, "k": k, "b": 3}, variant)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_types_of_products(kind: str, variant: str) -> None:
    for m, n, k in SIZES:
        check_product("mk,kn->mn", kind, {"m": m, "n": n, "k": k}, variant)


def check_product(equation: str, kind: str, extents: dict[str, int], variant: str) -> None:
    rng = np.random.default_rng(sum(extents.values()))
    terms = equation.replace("->", ",").split(",")
    storage = [KINDS[kind][0]] * 2 + [{"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8"}[KINDS[kind][1]]]
    make = rng.standard_normal if kind.startswith("f") else lambda shape: rng.integers(-100, 100, shape)
    a, b, c = (np.asarray(make([extents[x] for x in term])).astype(t) for term, t in zip(terms, storage, strict=True))
    wide = "f8" if kind.startswith("f") else "i8"
    expected = c + np.einsum(equation, a.astype(wide), b.astype(wide))
    done = program(contraction(equation, kind), variant).call("f", a, b, c)
    assert done.results[0] is c
    assert done.swept == 0
    same(c, expected, {"f64": 1e-14}.get(kind, 1e-5))


# reductions

REDUCTIONS: dict[str, tuple[str, float]] = {
    "addf": ("sum", 0.0),
    "mulf": ("prod", 1.0),
    "maximumf": ("max", -np.inf),
    "minimumf": ("min", np.inf),
    "maxnumf": ("fmax", np.nan),
    "minnumf": ("fmin", np.nan),
}


def reduction(name: str, kind: str, axes: tuple[int, ...]) -> str:
    kept = [axis for axis in (0, 1) if axis not in axes]
    start = {-np.inf: "0xFF800000", np.inf: "0x7F800000"}.get(REDUCTIONS[name][1], repr(REDUCTIONS[name][1]))
    if kind == "f64":
        start = {-np.inf: "0xFFF0000000000000", np.inf: "0x7FF0000000000000"}.get(REDUCTIONS[name][1], start)
    start = start.replace("nan", "0x7FC00000" if kind == "f32" else "0x7FF8000000000000")
    result = f"tensor<{'?x' * len(kept)}{kind}>"
    sizes = "".join(f"%n{axis}, " for axis in kept).removesuffix(", ")
    lines = "".join(
        f"%i{axis} = arith.constant {axis} : index\n%n{axis} = tensor.dim %x, %i{axis} : tensor<?x?x{kind}>\n"
        for axis in kept
    )
    return f"""
func.func @f(%x: tensor<?x?x{kind}>) -> {result} {{
  {lines}%start = arith.constant {start} : {kind}
  %e = tensor.empty({sizes}) : {result}
  %z = linalg.fill ins(%start : {kind}) outs(%e : {result}) -> {result}
  %r = linalg.reduce {{ arith.{name} }} ins(%x : tensor<?x?x{kind}>) outs(%z : {result}) dimensions = {list(axes)}
  return %r : {result}
}}"""


SHAPES = [(0, 5), (5, 0), (1, 1), (3, 7), (17, 513), (513, 31), (2, 16385), (3, 32768), (1, 40001), (1025, 511)]


AXES = {"columns": (0,), "rows": (1,), "all": (0, 1)}


@functools.cache
def reductions(kind: str, variant: str) -> cpucall.Program:
    """Functions such as ``addf_rows``, in one program."""
    texts = [
        reduction(name, kind, axes).replace("@f", f"@{name}_{word}")
        for name in REDUCTIONS
        for word, axes in AXES.items()
    ]
    return program("".join(texts), variant)


@pytest.mark.parametrize(("kind", "variant"), [*(("f32", each) for each in VARIANTS), ("f64", VARIANTS[-1])])
@pytest.mark.parametrize("word", AXES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, kind: str, word: str, variant: str) -> None:
    built, axes = reductions(kind, variant), AXES[word]
    method, start = REDUCTIONS[name]
    for shape in SHAPES:
        x = np.random.default_rng(shape[1]).standard_normal(shape).astype("f4" if kind == "f32" else "f8")
        x = np.exp(x / 1000) if name == "mulf" else x
        done = built.call(f"{name}_{word}", x)
        assert done.swept == 0
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}.get(method)
        ufunc = ufunc or getattr(np, method)
        expected = ufunc.reduce(x.astype("f8"), axis=axes, initial=start)
        np.testing.assert_allclose(done.results[0], expected, 1e-5 if kind == "f32" else 1e-12, 1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["maximumf", "minimumf", "maxnumf", "minnumf"])
def test_extremes_of_special_numbers(name: str, variant: str) -> None:
    nan, inf = np.nan, np.inf
    rows = [
        [1, nan, 2], [nan, nan, nan], [-inf, -inf, -inf], [inf, inf, inf], [-0.0, 0.0, -0.0], [0.0, -0.0, 0.0],
        [1e-45, -1e-45, 1e-45], [-nan, 3, 4], [nan, inf, -inf],
    ]  # fmt: skip
    x = np.array(rows, "f4")
    x[7, 0] = -np.float32(nan)
    got = reductions("f32", variant).call(f"{name}_rows", x).results[0]
    ufunc = {"maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}[name]
    expected = ufunc.reduce(x, axis=1, initial=REDUCTIONS[name][1])
    np.testing.assert_array_equal(got, expected)
    assert list(np.signbit(got[4:6])) == [name.startswith("min")] * 2


SUM = reduction("addf", "f32", (0, 1))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", AXES)
def test_results_do_not_depend_on_threads(word: str, variant: str) -> None:
    x = np.random.default_rng(1).standard_normal((300, 1001)).astype("f4")
    built = reductions("f32", variant)
    runs = [built.call(f"addf_{word}", x, threads=n, split=split) for n in (1, 2, 3, 7) for split in (True, False)]
    assert len({run.results[0].tobytes() for run in runs}) == 1
    assert all(run.regions for run in runs)


def test_strips_are_counted_as_the_work_that_they_are() -> None:
    """Some strips of 16384 elements are worth a thread: not thousands of them, as if a strip were one element."""
    (grain,) = re.findall(r"call void @aot_rt_parallel\(.*, i64 (\d+)\)", program(SUM, VARIANTS[-1]).llvm_ir)
    assert 2 <= int(grain) <= 32


def test_sums_are_more_accurate_than_one_after_the_other() -> None:
    x = np.full((1, 1 << 24), 0.1, "f4")
    got = program(SUM, VARIANTS[-1]).call("f", x).results[0]
    assert abs(float(got) / (0.1 * (1 << 24)) - 1) < 1e-4  # the fewer lanes a vector has, the longer its sums


# transposes, and rows that need their neighbours

PERMUTED = """
func.func @f(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {{
  %i0 = arith.constant {0} : index
  %i1 = arith.constant {1} : index
  %i2 = arith.constant {2} : index
  %n0 = tensor.dim %x, %i0 : tensor<?x?x?xf32>
  %n1 = tensor.dim %x, %i1 : tensor<?x?x?xf32>
  %n2 = tensor.dim %x, %i2 : tensor<?x?x?xf32>
  %e = tensor.empty(%n0, %n1, %n2) : tensor<?x?x?xf32>
  %r = linalg.transpose ins(%x : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) permutation = [{0}, {1}, {2}]
  return %r : tensor<?x?x?xf32>
}}"""


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_transposes(order: tuple[int, int, int]) -> None:
    for shape in [(0, 3, 4), (1, 1, 1), (3, 32, 33), (31, 2, 65), (64, 5, 1)]:
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        got = program(PERMUTED.format(*order), VARIANTS[-1]).call("f", x).results[0]
        np.testing.assert_array_equal(got, x.transpose(order))


NEIGHBOURS = """
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (i)>
func.func @f(%x: memref<?x8xf32>, %t: memref<?x8xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?x8xf32>
  %less = arith.subi %n, %c1 : index
  linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x8xf32>) outs(%t : memref<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %d = arith.addf %a, %a : f32
    linalg.yield %d : f32
  }
  %up = memref.subview %t[1, 0] [%less, 8] [1, 1] : memref<?x8xf32> to memref<?x8xf32, strided<[8, 1], offset: 8>>
  %part = memref.subview %y[0] [%less] [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "reduction"]}
      ins(%up : memref<?x8xf32, strided<[8, 1], offset: 8>>) outs(%part : memref<?xf32, strided<[1]>>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  }
  return
}"""


def test_rows_that_need_their_neighbours_are_not_fused() -> None:
    x = np.random.default_rng(0).standard_normal((50, 8)).astype("f4")
    t, y = np.zeros_like(x), np.zeros(50, "f4")
    program(NEIGHBOURS, VARIANTS[-1]).call("f", x, t, y)
    same(t, 2 * x)
    same(y[:-1], 2 * x[1:].sum(1))


def test_a_softmax_is_one_loop_without_buffers() -> None:
    text = """
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}""".replace(
        "%e =",
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        "%m = tensor.dim %x, %c0 : tensor<?x?xf32>\n%n = tensor.dim %x, %c1 : tensor<?x?xf32>\n%e =",
        1,
    )
    done = program(text, VARIANTS[-1]).call("f", np.ones((5, 9), "f4"))
    assert (done.regions, done.allocations) == (1, 0)
    same(done.results[0], np.full((5, 9), 1 / 9))
    alone = program(text, VARIANTS[-1]).call("f", np.array([[np.nan, 1], [np.inf, 0], [-np.inf, 0]], "f4")).results[0]
    np.testing.assert_array_equal(np.isnan(alone), [[True, True], [True, True], [False, False]])


# what must not end the process


@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
def test_divisions_do_not_trap(kind: str) -> None:
    array = f"tensor<?x{kind}>"
    text = "".join(
        f"func.func @{name}(%x: {array}, %y: {array}) -> {array} {{\n"
        f"  %r = arith.{name} %x, %y : {array}\n  return %r : {array}\n}}\n"
        for name in ("divsi", "remsi", "divui", "remui", "floordivsi", "ceildivsi")
    )
    storage = np.dtype({"i8": "i1", "i32": "i4", "i64": "i8"}[kind])
    least = np.iinfo(storage).min
    x, y = np.array([least, 7, least, -7], storage), np.array([-1, 0, 3, 2], storage)
    built = program(text, VARIANTS[-1])
    results = {
        name: built.call(name, x, y).results[0]
        for name in ("divsi", "remsi", "divui", "remui", "floordivsi", "ceildivsi")
    }
    assert results["divsi"][0] == least
    assert results["remsi"][0] == 0
    assert list(results["divsi"][2:]) == [-(-int(least) // 3), -3]
    assert results["floordivsi"][3] == -4
    assert results["ceildivsi"][3] == -3


def test_an_assertion_in_a_loop_ends_the_call() -> None:
    text = """
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %ok = arith.cmpf oge, %v, %zero : f32
    cf.assert %ok, "negative"
    %s = math.sqrt %v : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}"""
    built = program(text, VARIANTS[-1])
    same(built.call("f", np.full(1000, 4, "f4")).results[0], np.full(1000, 2))
    with pytest.raises(cpucall.CallError, match="assertion 0"):
        built.call("f", np.append(np.ones(1000, "f4"), np.float32(-1)))
    assert "negative" in built.messages[0]


def test_stack_memory_of_a_long_loop() -> None:
    text = """
func.func @f(%x: memref<1xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloca() : memref<65536xf32>
    %v = memref.load %x[%c0] : memref<1xf32>
    memref.store %v, %t[%c0] : memref<65536xf32>
    %w = memref.load %t[%c0] : memref<65536xf32>
    %s = arith.addf %w, %w : f32
    memref.store %s, %x[%c0] : memref<1xf32>
  }
  return
}"""
    x = np.ones(1, "f4")
    done = program(text, VARIANTS[-1]).call("f", x, 100)
    assert x[0] == 2.0**100
    assert done.swept == 0
