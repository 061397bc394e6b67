"""Kernels that spill give way to others when they are built; the rest is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiledsource import compiled

from aot.fatbins import spills
from aot.model import CompiledSource, FatBinary, Image, Kernel, Usage
from aot.settings.wishes import Dropped, Wish
from aot.tiling import Tiling

SUM = """
func.func @scaled(%x: tensor<4x8192xf32>, %out: tensor<4x8192xf32>) -> tensor<4x8192xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<4x8192xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<4x8192xf32>, tensor<4xf32>) outs(%out : tensor<4x8192xf32>) {
  ^bb0(%v: f32, %a: f32, %o: f32):
    %r = arith.divf %v, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8192xf32>
  return %y : tensor<4x8192xf32>
}"""
PRODUCT = """
func.func @f(%a: tensor<{m}x{k}x{e}>, %b: tensor<{right}x{e}>, %out: tensor<{m}x{n}x{r}>) -> tensor<{m}x{n}x{r}> {{
  %zero = arith.constant {zero} : {s}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %out, %c0 : tensor<{m}x{n}x{r}>
  %n = tensor.dim %out, %c1 : tensor<{m}x{n}x{r}>
  %raw = tensor.empty(%m, %n) : tensor<?x?x{s}>
  %empty = tensor.cast %raw : tensor<?x?x{s}> to tensor<{m}x{n}x{s}>
  %start = linalg.fill ins(%zero : {s}) outs(%empty : tensor<{m}x{n}x{s}>) -> tensor<{m}x{n}x{s}>
  %p = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> ({order})>,
      affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<{m}x{k}x{e}>, tensor<{right}x{e}>)
      outs(%start : tensor<{m}x{n}x{s}>) -> tensor<{m}x{n}x{s}>
  %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%p : tensor<{m}x{n}x{s}>) outs(%out : tensor<{m}x{n}x{r}>) {{
  ^bb0(%sum: {s}, %old: {r}):
    {result}
    linalg.yield %v : {r}
  }} -> tensor<{m}x{n}x{r}>
  return %y : tensor<{m}x{n}x{r}>
}}"""
"""Rows of results come from sums of another type."""
NARROW = "%v = arith.truncf %sum : f32 to {0}"


def product(element: str, sums: str, result: str, sizes: tuple[str, str, str], order: str, convert: str) -> str:
    """The text of a product whose right factor has this order of its loops."""
    m, n, k = sizes
    right = "x".join({"n": n, "k": k}[each] for each in order.split(", "))
    names = {"m": m, "n": n, "k": k, "right": right, "order": order}
    zero = "0" if sums.startswith("i") else "0.0"
    return PRODUCT.format(**names, e=element, s=sums, r=result, zero=zero, result=convert.format(result))


ROW = Tiling("rows", 1, (("threads", 32),))


def source(kernels: tuple[Kernel, ...], usage: tuple[tuple[str, str, int], ...]) -> CompiledSource:
    used = tuple((symbol, target, Usage(255, 0, 8, spilled, 256, 0)) for symbol, target, spilled in usage)
    blob = FatBinary(b"", (Image("sm_80", "sm_80", "cubin", 1),), used)
    return CompiledSource("s", "s.mlir", "", (), kernels, blob, ())


def test_candidates_are_dropped_once_and_the_rest_is_told() -> None:
    kernels = (
        Kernel("f_kernel", "f", "f__f_kernel", schedule="row", tiling=ROW),
        Kernel("mine", "m", "m__mine"),
        Kernel("fine", "f", "f__fine", schedule="any-row", tiling=Tiling("rows", 1, ())),
    )
    found = source(
        kernels,
        (("f__f_kernel", "sm_80", 8), ("f__f_kernel", "sm_90", 4), ("m__mine", "sm_80", 16), ("f__fine", "sm_80", 0)),
    )
    dropped = spills.droppable(found, ())
    assert dropped == (Dropped("f", "row", ROW),)
    assert spills.droppable(found, dropped) == ()
    told = list(spills.remarks(source(kernels, (("m__mine", "sm_80", 16),)), dropped))
    assert told == [
        "f: region 1: row: threads 32: its registers spilled, it gets room for them",
        "mine: 16 bytes of registers spill on sm_80",
    ]


def test_a_tile_that_is_too_large_is_made_smaller(tmp_path: Path) -> None:
    wish = Wish("scaled", 0, "row", (("threads", 32), ("rows", 1), ("vectors", 64)), "aot.toml:1")
    made = compiled(tmp_path, SUM, "sm_80", wish)
    assert made.fatbin is not None
    assert not any(used.spill_bytes for _, _, used in made.fatbin.usage)
    tiling = made.kernels[0].tiling
    assert tiling is not None
    assert tiling.tile[:3] == (("threads", 64), ("rows", 1), ("vectors", 32))
    assert made.remarks[0].startswith("scaled: region 1: row: threads 32, rows 1, vectors 64, width 4, exact")


DYNAMIC = ("?", "?", "?")


@pytest.mark.parametrize(
    "text",
    [
        product("f16", "f32", "f16", DYNAMIC, "n, k", NARROW),
        product("bf16", "f32", "bf16", DYNAMIC, "n, k", NARROW),
        product("f64", "f64", "f64", DYNAMIC, "k, n", "%v = arith.negf %sum : f64"),
        product("i8", "i32", "f16", ("64", "4096", "4096"), "n, k", "%v = arith.sitofp %sum : i32 to f16"),
        product("f8E4M3FN", "f32", "f16", ("64", "4096", "4096"), "n, k", NARROW),
    ],
    ids=["f16", "bf16", "f64", "i8", "e4m3"],
)
def test_products_do_not_spill(tmp_path: Path, text: str) -> None:
    made = compiled(tmp_path, text, "sm_90 sm_100")
    assert made.fatbin is not None
    assert made.kernels
    assert [used for _, _, used in made.fatbin.usage if used.spill_bytes] == []
    assert made.remarks == ()
