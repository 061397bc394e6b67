"""Values of the fast schedules where memory has gaps or loops lie in another order, on the CPU."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpurun import Program, build

DTYPES = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "i8": np.dtype("i1")}
REDUCED = ((1,), (0, 2), (0, 1), (1, 2), (0,), (2,), (0, 1, 2))
SHAPES = (
    (3, 5, 7),
    (2, 70, 8),
    (1, 300, 16),
    (4, 33, 12),
    (2, 3, 1000),
    (130, 2, 4),
    (2, 20, 600),
    (0, 3, 4),
    (3, 0, 4),
    (3, 4, 0),
)


def reduction(dims: tuple[int, ...], kind: str) -> str:
    """A sum that keeps the other dimensions; scaled by what each last index has, and one more for each result."""
    kept = [dim for dim in range(3) if dim not in dims]
    full, scale, out = f"tensor<?x?x?x{kind}>", f"tensor<?x{kind}>", f"tensor<{'?x' * len(kept)}{kind}>"
    result = f"affine_map<(a, b, c) -> ({', '.join('abc'[dim] for dim in kept)})>"
    loops = ", ".join('"reduction"' if dim in dims else '"parallel"' for dim in range(3))
    zero, product, total = ("0", "arith.muli", "arith.addi") if kind == "i8" else ("0.0", "arith.mulf", "arith.addf")
    return f"""func.func @sum_{"".join(map(str, dims))}(%x: {full}, %w: {scale}, %o: {out}) -> {out} {{
  %z = arith.constant {zero} : {kind}
  %f = linalg.fill ins(%z : {kind}) outs(%o : {out}) -> {out}
  %s = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c)>, {result}],
      iterator_types = [{loops}]}} ins(%x, %w : {full}, {scale}) outs(%f : {out}) {{
  ^bb0(%v: {kind}, %y: {kind}, %a: {kind}):
    %p = {product} %v, %y : {kind}
    %r = {total} %p, %a : {kind}
    linalg.yield %r : {kind}
  }} -> {out}
  return %s : {out}
}}
"""


@functools.cache
def reductions(kind: str) -> Program:
    return build("\n".join(reduction(dims, kind) for dims in REDUCED), backwards=kind == "f16")


@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
@pytest.mark.parametrize("dims", REDUCED, ids=str)
def test_reductions_of_any_dimensions(dims: tuple[int, ...], kind: str) -> None:
    assert not reductions(kind).lowered.notes
    random = np.random.default_rng(1)
    for shape in SHAPES:
        x, w = (random.integers(-3, 4, extents).astype(DTYPES[kind]) for extents in (shape, shape[2:]))
        o = np.full([extent for dim, extent in enumerate(shape) if dim not in dims], 77, DTYPES[kind])
        got = reductions(kind).call(f"sum_{''.join(map(str, dims))}", x, w, o).results[0]
        want = (x.astype("i8") * w.astype("i8")).sum(dims).astype(DTYPES[kind])
        np.testing.assert_array_equal(got, want, err_msg=str(shape))


ARGMAX = """
func.func @argmax(%x: tensor<?x?x?xf32>, %m: tensor<?x?xf32>, %i: tensor<?x?xi32>) -> tensor<?x?xi32> {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %f = linalg.fill ins(%low : f32) outs(%m : tensor<?x?xf32>) -> tensor<?x?xf32>
  %g = linalg.fill ins(%none : i32) outs(%i : tensor<?x?xi32>) -> tensor<?x?xi32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, c)>,
      affine_map<(a, b, c) -> (a, c)>], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<?x?x?xf32>) outs(%f, %g : tensor<?x?xf32>, tensor<?x?xi32>) {
  ^bb0(%v: f32, %a: f32, %b: i32):
    %l = linalg.index 1 : index
    %p = arith.index_cast %l : index to i32
    %c = arith.cmpf ogt, %v, %a : f32
    %n = arith.select %c, %v, %a : f32
    %q = arith.select %c, %p, %b : i32
    linalg.yield %n, %q : f32, i32
  } -> (tensor<?x?xf32>, tensor<?x?xi32>)
  return %r#1 : tensor<?x?xi32>
}
func.func @argmax_of_all(%x: tensor<?xf32>, %m: tensor<f32>, %i: tensor<i32>) -> tensor<i32> {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %f = linalg.fill ins(%low : f32) outs(%m : tensor<f32>) -> tensor<f32>
  %g = linalg.fill ins(%none : i32) outs(%i : tensor<i32>) -> tensor<i32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>, affine_map<(a) -> ()>],
      iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%f, %g : tensor<f32>, tensor<i32>) {
  ^bb0(%v: f32, %a: f32, %b: i32):
    %l = linalg.index 0 : index
    %p = arith.index_cast %l : index to i32
    %c = arith.cmpf ogt, %v, %a : f32
    %n = arith.select %c, %v, %a : f32
    %q = arith.select %c, %p, %b : i32
    linalg.yield %n, %q : f32, i32
  } -> (tensor<f32>, tensor<i32>)
  return %r#1 : tensor<i32>
}
"""


def test_the_first_place_in_the_middle() -> None:
    program = build(ARGMAX)
    assert not program.lowered.notes
    random = np.random.default_rng(2)
    for shape in ((1, 1, 1), (3, 70, 5), (2, 600, 8), (5, 9, 64)):
        x = random.integers(-3, 4, shape).astype("f4")
        m, i = np.zeros((shape[0], shape[2]), "f4"), np.zeros((shape[0], shape[2]), "i4")
        np.testing.assert_array_equal(program.call("argmax", x, m, i).results[0], x.argmax(1), err_msg=str(shape))
        m, i = np.zeros((), "f4"), np.zeros((), "i4")
        assert program.call("argmax_of_all", x.reshape(-1), m, i).results[0] == x.argmax()


def gaps(kind: str) -> str:
    """Functions on memory whose rows are apart, and on parts of arrays."""
    rows, cube = (
        f"memref<?x?x{kind}, strided<[?, 1], offset: ?>>",
        f"memref<?x?x?x{kind}, strided<[?, ?, 1], offset: ?>>",
    )
    loose = f"memref<?x?x{kind}, strided<[?, ?], offset: ?>>"
    full, column, row = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j)>", "affine_map<(i, j) -> (i)>"

    def generic(maps: str, loops: str, ins: str, outs: str, body: str) -> str:
        return f"""linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}}
            ins({ins}) outs({outs}) {{ {body} }}"""

    both, reduce_ = '"parallel", "parallel"', '"parallel", "reduction"'
    turned = '"reduction", "parallel"'
    add = f"^bb0(%a: {kind}, %b: {kind}): %r = arith.addf %a, %b : {kind} linalg.yield %r : {kind}"
    bias = f"^bb0(%a: {kind}, %b: {kind}, %o: {kind}): %r = arith.addf %a, %b : {kind} linalg.yield %r : {kind}"
    less = bias.replace("addf", "subf")
    flat = f"memref<?x{kind}>"
    cube_map = "affine_map<(i, j, k) -> (i, j, k)>"
    return f"""
func.func @copied(%x: {rows}, %y: {rows}) {{
  {
        generic(
            f"{full}, {full}",
            both,
            f"%x : {rows}",
            f"%y : {rows}",
            f"^bb0(%a: {kind}, %b: {kind}): linalg.yield %a : {kind}",
        )
    }
  return
}}
func.func @cubes(%x: {cube}, %w: {flat}, %y: {cube}) {{
  {
        generic(
            f"{cube_map}, affine_map<(i, j, k) -> (j)>, {cube_map}",
            both + ', "parallel"',
            f"%x, %w : {cube}, {flat}",
            f"%y : {cube}",
            bias,
        )
    }
  return
}}
func.func @biased(%x: {rows}, %w: {flat}, %y: {loose}) {{
  {generic(f"{full}, {column}, {full}", both, f"%x, %w : {rows}, {flat}", f"%y : {loose}", bias)}
  return
}}
func.func @row_sums(%x: {rows}, %s: {flat}) {{
  {generic(f"{full}, {row}", reduce_, f"%x : {rows}", f"%s : {flat}", add)}
  return
}}
func.func @less_the_sum(%t: tensor<?x?x{kind}>, %first: index, %n: index, %s: tensor<?x{kind}>, %y: tensor<?x?x{kind}>)
    -> tensor<?x?x{kind}> {{
  %c0 = arith.constant 0 : index
  %m = tensor.dim %t, %c0 : tensor<?x?x{kind}>
  %x = tensor.extract_slice %t[0, %first] [%m, %n] [1, 1] : tensor<?x?x{kind}> to tensor<?x?x{kind}>
  %u = {generic(f"{full}, {row}", reduce_, "%x : tensor<?x?xf32>", "%s : tensor<?xf32>", add)} -> tensor<?x{kind}>
  %v = {
        generic(f"{full}, {row}, {full}", both, "%x, %u : tensor<?x?xf32>, tensor<?xf32>", "%y : tensor<?x?xf32>", less)
    }
      -> tensor<?x?x{kind}>
  return %v : tensor<?x?x{kind}>
}}
func.func @column_sums(%x: {rows}, %s: memref<?x{kind}, strided<[?], offset: ?>>) {{
  {generic(f"{full}, {column}", turned, f"%x : {rows}", f"%s : memref<?x{kind}, strided<[?], offset: ?>>", add)}
  return
}}
func.func @padded(%x: tensor<?x?x{kind}>, %z: {kind}) -> tensor<?x?x{kind}> {{
  %r = tensor.pad %x low[1, 4] high[2, 8] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %z : {kind}
  }} : tensor<?x?x{kind}> to tensor<?x?x{kind}>
  return %r : tensor<?x?x{kind}>
}}
func.func @joined(%x: tensor<?x?x{kind}>, %y: tensor<?x?x{kind}>) -> tensor<?x?x{kind}> {{
  %r = tensor.concat dim(1) %x, %y : (tensor<?x?x{kind}>, tensor<?x?x{kind}>) -> tensor<?x?x{kind}>
  return %r : tensor<?x?x{kind}>
}}
func.func @part(%x: tensor<?x?x{kind}>, %a: index, %b: index, %m: index, %n: index) -> tensor<?x?x{kind}> {{
  %r = tensor.extract_slice %x[%a, %b] [%m, %n] [1, 1] : tensor<?x?x{kind}> to tensor<?x?x{kind}>
  return %r : tensor<?x?x{kind}>
}}
"""


@functools.cache
def gapped() -> Program:
    return build(gaps("f32"))


def test_nothing_with_gaps_is_left_to_the_general_schedule() -> None:
    assert not gapped().lowered.notes


@pytest.mark.parametrize("extents", [(1, 1), (3, 8), (7, 33), (5, 300), (2, 2100), (70, 16), (0, 4), (3, 0)], ids=str)
@pytest.mark.parametrize(("pitch", "first"), [(0, 0), (4, 4), (3, 1)])
def test_rows_that_are_apart(extents: tuple[int, int], pitch: int, first: int) -> None:
    m, n = extents
    random = np.random.default_rng(3)

    def rows(*leading: int) -> Any:
        memory = random.integers(-9, 9, (*leading, m, n + first + pitch)).astype("f4")
        return memory[..., first : first + n]

    x, y, w, s = rows(), rows(), np.arange(n, dtype="f4"), np.full(m, 7, "f4")
    gapped().call("copied", x, y)
    np.testing.assert_array_equal(y, x)
    loose = np.zeros((m, 2 * n), "f4")[:, ::2]
    gapped().call("biased", x, w, loose)
    np.testing.assert_array_equal(loose, x + w)
    gapped().call("row_sums", x, s)
    np.testing.assert_array_equal(s, 7 + x.sum(1))
    sums = np.full(2 * n, 5, "f4")
    gapped().call("column_sums", x, sums[::2])
    np.testing.assert_array_equal(sums, np.stack([5 + x.sum(0), np.full(n, 5, "f4")], 1).reshape(-1))
    cube, made, each = rows(3), rows(3), np.arange(m, dtype="f4")
    gapped().call("cubes", cube, each, made)
    np.testing.assert_array_equal(made, cube + each[:, None])


@pytest.mark.parametrize("extents", [(1, 1), (3, 8), (5, 301), (0, 4), (3, 0)], ids=str)
def test_parts_of_arrays(extents: tuple[int, int]) -> None:
    x = np.random.default_rng(4).standard_normal(extents).astype("f4")
    got = gapped().call("padded", x, 2.5).results[0]
    np.testing.assert_array_equal(got, np.pad(x, ((1, 2), (4, 8)), constant_values=2.5))
    y = np.ascontiguousarray(x[:, : extents[1] // 2])
    np.testing.assert_array_equal(gapped().call("joined", x, y).results[0], np.concatenate([x, y], 1))
    m, n = extents[0] // 2, extents[1] // 3
    np.testing.assert_array_equal(gapped().call("part", x, m, n, extents[0] - m, n).results[0], x[m:, n : 2 * n])


@pytest.mark.parametrize("columns", [8, 1000, 5000, 20000])
@pytest.mark.parametrize(("pitch", "first"), [(4, 4), (3, 1)])
def test_rows_that_are_apart_and_read_twice(columns: int, pitch: int, first: int) -> None:
    memory = np.random.default_rng(5).integers(-9, 9, (3, columns + pitch + first)).astype("f4")
    x, y = memory[:, first : first + columns], np.zeros((3, columns), "f4")
    got = gapped().call("less_the_sum", memory, first, columns, np.zeros(3, "f4"), y).results[0]
    np.testing.assert_array_equal(got, x - x.sum(1, keepdims=True))


VIEWED = """
func.func @f(%x: memref<?x4xf32>, %p: index) -> memref<?x4xf32> {{
  %one = arith.constant 1.0 : f32
  %c4 = arith.constant 4 : index
  %n = arith.muli %p, %c4 : index
  {view}
  linalg.fill ins(%one : f32) outs(%e : memref<?x4xf32>)
  %r = memref.alloc(%p) : memref<?x4xf32>
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%e, %x : memref<?x4xf32>, memref<?x4xf32>) outs(%r : memref<?x4xf32>) {{
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  }}
  return %r : memref<?x4xf32>
}}
"""
VIEWS = {
    "expanded": """%a = memref.alloc(%n) : memref<?xf32>
  %e = memref.expand_shape %a [[0, 1]] output_shape [%p, 4] : memref<?xf32> into memref<?x4xf32>""",
    "collapsed": """%a = memref.alloc(%p) : memref<?x1x4xf32>
  %e = memref.collapse_shape %a [[0, 1], [2]] : memref<?x1x4xf32> into memref<?x4xf32>""",
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_extents_are_known_without_memory_that_kernels_do_without(view: str) -> None:
    """What is filled is no memory in the end, and had given the loops their extents."""
    x = np.arange(20, dtype="f4").reshape(5, 4)
    np.testing.assert_array_equal(build(VIEWED.format(view=view)).call("f", x, 5).results[0], x + 1)
