"""Contractions and attention on Hopper's tensor cores: which kernel is chosen, and what ptxas makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiledsource import compiled, held

from aot import lower as lowering
from aot import mlir
from aot.errors import ConfigError
from aot.lower import tensor
from aot.model import Kernel
from aot.settings.wishes import Wish

MATMUL = """
func.func @f(%a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>, %bias: tensor<{n}xf16>, %c: tensor<{m}x{n}xf16>)
    -> tensor<{m}x{n}xf16> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<{m}x{k}xf16>
  %n = tensor.dim %b, %c1 : tensor<{k}x{n}xf16>
  %any = tensor.empty(%m, %n) : tensor<?x?xf32>
  %e = tensor.cast %any : tensor<?x?xf32> to tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %p = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>) outs(%f : tensor<{m}x{n}xf32>)
      -> tensor<{m}x{n}xf32>
  %o = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %bias : tensor<{m}x{n}xf32>, tensor<{n}xf16>) outs(%c : tensor<{m}x{n}xf16>) {{
  ^bb0(%x: f32, %y: f16, %old: f16):
    %w = arith.extf %y : f16 to f32
    %s = arith.addf %x, %w : f32
    %r = arith.maximumf %s, %z : f32
    %t = arith.truncf %r : f32 to f16
    linalg.yield %t : f16
  }} -> tensor<{m}x{n}xf16>
  return %o : tensor<{m}x{n}xf16>
}}
"""


PLAIN = """
func.func @f(%a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>, %c: tensor<{m}x{n}x{t}>) -> tensor<{m}x{n}x{t}> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %p = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>) outs(%f : tensor<{m}x{n}xf32>)
      -> tensor<{m}x{n}xf32>
  %o = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%p : tensor<{m}x{n}xf32>) outs(%c : tensor<{m}x{n}x{t}>) {{
  ^bb0(%x: f32, %old: {t}):
    %s = arith.negf %x : f32
    {last}
  }} -> tensor<{m}x{n}x{t}>
  return %o : tensor<{m}x{n}x{t}>
}}
"""
LAST = {
    "f16": "%t = arith.truncf %s : f32 to f16\n    linalg.yield %t : f16",
    "f32": "linalg.yield %s : f32",
}


def plain(m: int, n: int, k: int, t: str) -> str:
    """A product whose results nothing else is read for."""
    return PLAIN.format(m=m, n=n, k=k, t=t, last=LAST[t])


def chosen(text: str, capabilities: tuple[tuple[int, int], ...] = ((9, 0),), *wishes: Wish) -> tuple[Kernel, ...]:
    """Kernels of a source, as they are before they are compiled."""
    with mlir.context() as ctx:
        module = mlir.parse(text.encode(), "f.mlir", ctx)
        options = tensor.Options(capabilities=capabilities, wishes=wishes)
        return lowering.lower(module, lowering.Request("f", {}, options), mlir.no_dump).kernels


def lowered(text: str) -> str:
    """A source's kernels, as LLVM will have them."""
    with mlir.context() as ctx:
        module = mlir.parse(text.encode(), "f.mlir", ctx)
        made = lowering.lower(module, lowering.Request("f", {}, tensor.Options(capabilities=((9, 0),))), mlir.no_dump)
        return str(made.device)


def tiles(kernels: tuple[Kernel, ...], schedule: str) -> list[str]:
    return [each.tiling.text() for each in kernels if each.schedule == schedule and each.tiling]


CHOICES = [
    ("large", (4096, 4096, 4096), "m 128, n 256, k 64, stages 4, cluster 2, staged"),
    ("two waves", (2048, 2048, 2048), "m 128, n 256, k 64, stages 4, cluster 1, staged"),
    ("another width fills the waves", (3072, 3072, 3072), "m 128, n 192, k 64, stages 4, cluster 1, staged"),
    ("nothing to share for long", (8192, 4096, 64), "m 128, n 256, k 64, stages 4, cluster 1, staged"),
    ("fewer tiles than places", (512, 512, 512), "m 64, n 128, k 64, stages 8, cluster 1, staged"),
    ("few rows", (16, 4096, 4096), "m 64, n 64, k 64, stages 12, cluster 2, split 2, direct"),
    ("half is left idle", (512, 512, 4096), "m 64, n 64, k 64, stages 12, cluster 2, split 2, direct"),
    ("most is left idle", (300, 520, 4104), "m 128, n 64, k 64, stages 8, cluster 4, split 4, direct"),
    (
        "two blocks share a sum of fewer steps",
        (300, 512, 1024),
        "m 64, n 64, k 64, stages 12, cluster 2, split 2, direct",
    ),
    ("not all clusters run at once", (384, 640, 4096), "m 64, n 64, k 64, stages 12, cluster 2, split 2, direct"),
    ("few rows keep half of it busy", (64, 4352, 4096), "m 64, n 128, k 64, stages 8, cluster 1, staged"),
    ("some rows leave half of it idle", (128, 4096, 4096), "m 128, n 64, k 64, stages 8, cluster 2, split 2, direct"),
    ("some rows keep half of it busy", (128, 8192, 4096), "m 64, n 128, k 64, stages 8, cluster 1, staged"),
    ("rows are copied first", (512, 512, 510), "m 64, n 128, k 64, stages 8, cluster 1, staged"),
    ("a width between fills the waves", (1536, 1536, 1536), "m 128, n 144, k 64, stages 4, cluster 1, staged"),
    ("all of some rows", (128, 8576, 4096), "m 128, n 128, k 64, stages 6, cluster 4, staged"),
    ("rows begin between lines", (512, 520, 512), "m 64, n 128, k 64, stages 8, cluster 2, staged"),
    ("pairs cannot be aligned", (512, 513, 512), "m 64, n 128, k 64, stages 8, cluster 1, along rows"),
    ("copies of short rows", (512, 512, 65), "m 64, n 128, k 64, stages 8, cluster 2, staged"),
]


@pytest.mark.parametrize(("sizes", "expected"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_the_tile_follows_the_extents(sizes: tuple[int, int, int], expected: str) -> None:
    m, n, k = sizes
    kernels = chosen(MATMUL.format(m=m, n=n, k=k))
    assert tiles(kernels, "wgmma") == ([expected] if expected else [])
    assert all(each.needs == "sm_90a" for each in kernels if each.schedule == "wgmma")
    assert any(not each.needs for each in kernels), "something runs where TMA cannot read the arrays"


def test_clusters_share_the_sum_of_one_row() -> None:
    one, plain = MATMUL.format(m=1, n=4096, k=4096), "columns 128, threads 256, width 8"
    clusters = "columns 64, threads 256, width 8, cluster 4"
    assert tiles(chosen(one), "matvec") == [clusters]
    assert tiles(chosen(one, ((8, 0), (9, 0))), "matvec") == [clusters, plain]
    assert tiles(chosen(one, ((8, 0),)), "matvec") == [plain]
    assert tiles(chosen(MATMUL.format(m=1, n=14336, k=4096)), "matvec") == [plain], "not all clusters run at once"


FLOW = "m 16, n 128, k 64, stages 5, cluster 1, swapped, "
NARROW = "m 16, n 64, k 64, stages 10, cluster 1, swapped, "
THREE = "m 16, n 64, k 64, stages 6, cluster 1, swapped, "
SHARED = "m 16, n 64, k 64, stages 10, cluster 4, split 4, swapped, direct"
FLOWS = [
    ("staged", plain(16, 14336, 4096, "f16"), [FLOW + "staged"]),
    ("direct", plain(16, 14336, 4096, "f32"), [FLOW + "direct"]),
    ("one row", plain(1, 14336, 4096, "f16"), [FLOW + "staged"]),
    ("more rows", plain(17, 14336, 4096, "f16"), []),
    ("no three blocks", plain(2, 12680, 4096, "f16"), [FLOW + "staged"]),
    ("three blocks", plain(2, 12672, 4096, "f16"), [THREE + "staged"]),
    ("two blocks", plain(2, 8448, 4096, "f16"), [NARROW + "staged"]),
    ("two blocks, direct", plain(2, 8448, 4096, "f32"), [NARROW + "direct"]),
    ("blocks share a sum", plain(2, 2112, 4096, "f16"), [SHARED]),
    ("one row of fewer columns", plain(1, 4096, 4096, "f16"), [NARROW + "staged"]),
    ("one row of few columns", plain(1, 4088, 4096, "f16"), []),
    ("a short sum", plain(16, 14336, 512, "f16"), []),
    ("rows that TMA does not read", plain(16, 14337, 4096, "f16"), []),
    ("a bias is read", MATMUL.format(m=16, n=14336, k=4096), []),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in FLOWS], ids=[row[0] for row in FLOWS])
def test_few_rows_of_many_columns_change_places(text: str, expected: list[str]) -> None:
    found = tiles(chosen(text), "wgmma")
    assert [each for each in found if "swapped" in each] == expected
    assert found[0] == expected[0] if expected else found, "it comes before others, which take what is copied first"


SWAPPED = [
    ("staged", plain(1000, 1000, 1000, "f16"), "m 72, n 128, k 64, stages 8, cluster 4, swapped, staged"),
    ("direct", plain(1000, 1000, 1000, "f32"), "m 72, n 128, k 64, stages 8, cluster 4, swapped, direct"),
    ("short", plain(1000, 1000, 264, "f16"), "m 64, n 128, k 64, stages 8, cluster 2, staged"),
    ("too many", plain(1024, 1000, 1000, "f16"), "m 64, n 128, k 64, stages 8, cluster 2, staged"),
    (
        "a width fills the waves",
        plain(1536, 1536, 1536, "f16"),
        "m 144, n 128, k 64, stages 5, cluster 1, swapped, staged",
    ),
    ("no width does", plain(3072, 3072, 3072, "f16"), "m 128, n 192, k 64, stages 4, cluster 1, staged"),
    ("such a width of f32", plain(1536, 1536, 1536, "f32"), "m 128, n 144, k 64, stages 4, cluster 1, staged"),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in SWAPPED], ids=[row[0] for row in SWAPPED])
def test_factors_change_places_for_rows_between_lines(text: str, expected: str) -> None:
    assert tiles(chosen(text), "wgmma") == [expected]


CONVOLUTION = """
func.func @f(%x: tensor<{n}x{h}x{w}x{c}xf16>, %w: tensor<3x3x{c}x64xf16>, %o: tensor<{n}x{p}x{q}x64xf32>)
    -> tensor<{n}x{p}x{q}x64xf32> {{
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<{n}x{p}x{q}x64xf32>) -> tensor<{n}x{p}x{q}x64xf32>
  %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<{by}> : tensor<2xi64>, dilations = dense<2> : tensor<2xi64>}}
    ins(%x, %w : tensor<{n}x{h}x{w}x{c}xf16>, tensor<3x3x{c}x64xf16>) outs(%f : tensor<{n}x{p}x{q}x64xf32>)
    -> tensor<{n}x{p}x{q}x64xf32>
  return %r : tensor<{n}x{p}x{q}x64xf32>
}}
"""


@pytest.mark.parametrize(("channels", "step", "walked"), [(128, 2, True), (96, 1, False), (64, 9, False)])
def test_convolutions_walk_over_whole_pixels(channels: int, step: int, walked: bool) -> None:
    """Channels are copied 64 at a time, in steps that TMA has."""
    extents = dict.fromkeys("nhwpq", "?")
    kernels = chosen(CONVOLUTION.format(**extents, c=channels, by=step))
    assert tiles(kernels, "wgmma") == (["m 128, n 64, k 64, stages 3, cluster 1, staged"] if walked else [])
    assert tiles(kernels, "mma"), "something runs elsewhere"


def wish(schedule: str, **sizes: int) -> Wish:
    return Wish("f", 0, schedule, tuple(sizes.items()), "aot.toml:3: [here]")


def test_the_tile_may_be_asked_for() -> None:
    text = MATMUL.format(m="?", n=512, k=512)
    asked = chosen(text, ((9, 0),), wish("wgmma", m=64, n=256, cluster=2))
    assert tiles(asked, "wgmma") == ["m 64, n 256, k 64, stages 5, cluster 2, staged"]
    asked = chosen(text, ((9, 0),), wish("wgmma", n=176))
    assert tiles(asked, "wgmma") == ["m 128, n 176, k 64, stages 4, cluster 1, staged"]
    asked = chosen(text, ((9, 0),), wish("wgmma", n=128, cluster=4))
    assert tiles(asked, "wgmma") == ["m 128, n 128, k 64, stages 6, cluster 4, staged"]
    asked = chosen(text, ((9, 0),), wish("mma", rows=128, columns=64))
    assert not tiles(asked, "wgmma")
    assert [each.split(", depth")[0] for each in tiles(asked, "mma")] == [
        "rows 16, columns 128",
        "rows 128, columns 64",
    ]


UNFIT = [
    (wish("wgmma", m=96), r"aot\.toml:3: \[here\]: m 96 is not possible; 64, 128 are"),
    (wish("wgmma", stages=9), r"stages 9 of a tile of 128 x 256 are not possible; 2 to 4 are"),
    (wish("wgmma", rows=64), r"schedule 'wgmma' has no size 'rows'; it has m, n, stages, cluster"),
    (wish("wgmma", cluster=3, stages=99), r"cluster 3 is not possible; .*; stages 99 of a tile of 128 x 256 are not"),
    (wish("wgmma", m=96, stages=99, rows=1), r"no size 'rows'; .*; m 96 is not possible; .*; stages 99 .* 2 to 12 are"),
    (wish("wgmma", m=72), r"m 72 is not possible; 64, 128 are; others that `aot build -v` shows are the tool's own"),
    (wish("wgmma", n=176, cluster=2), r"n 176 goes with m 128 and cluster 1 only"),
    (wish("wgmma", n=176, m=64), r"n 176 goes with m 128 and cluster 1 only"),
    (wish("wgmma", n=64, cluster=4), r"cluster 4 goes with m 128 and n 128 only"),
    (wish("wgmma", n=144, stages=5), r"stages 5 of a tile of 128 x 144 are not possible; 2 to 4 are"),
    (wish("mma", rows=7), r"no kernel of schedule 'mma' has these sizes; kernels have rows 64, columns 64"),
]


@pytest.mark.parametrize(("unfit", "message"), UNFIT, ids=[str(each[0].sizes) for each in UNFIT])
def test_a_tile_that_is_not_possible_is_refused(unfit: Wish, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chosen(MATMUL.format(m=512, n=512, k=512), ((9, 0),), unfit)


@pytest.mark.parametrize(
    ("maps", "element", "sizes", "message"),
    [
        ("(k, m)", "f16", {"n": 128, "cluster": 4}, "; cluster 4 is for matrices .*, the left one not transposed"),
        ("(m, k)", "f8E4M3FN", {"n": 176}, "schedule 'wgmma', which .*; n 176 is for matrices of f16 or bf16$"),
    ],
)
def test_some_tiles_are_for_some_factors(maps: str, element: str, sizes: dict[str, int], message: str) -> None:
    left, right = f"tensor<512x512x{element}>", f"tensor<512x512x{element}>"
    others = ["affine_map<(m, n, k) -> (n, k)>", "affine_map<(m, n, k) -> (m, n)>"]
    text = f"""func.func @f(%a: {left}, %b: {right}, %c: tensor<512x512xf32>) -> tensor<512x512xf32> {{
      %y = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> {maps}>, {", ".join(others)}]
        ins(%a, %b : {left}, {right}) outs(%c : tensor<512x512xf32>) -> tensor<512x512xf32>
      return %y : tensor<512x512xf32>
    }}"""
    assert tiles(chosen(text, ((9, 0),), wish("wgmma", n=128)), "wgmma")
    with pytest.raises(ConfigError, match=message):
        chosen(text, ((9, 0),), wish("wgmma", **sizes))


def test_other_images_do_without() -> None:
    text = MATMUL.format(m=512, n=512, k=512)
    assert not tiles(chosen(text, ((8, 0), (10, 0))), "wgmma")
    with pytest.raises(ConfigError, match=r"schedule 'wgmma', which is for f16, .* and tf32 in images for sm_90$"):
        chosen(text, ((8, 0), (10, 0)), wish("wgmma"))


def test_a_product_of_any_size_compiles_to_good_code(tmp_path: Path) -> None:
    source = compiled(tmp_path, MATMUL.format(m="?", n="?", k="?"), "sm_90")
    assert source.fatbin is not None
    assert [(image.requested, image.target) for image in source.fatbin.images] == [("sm_90", "sm_90a")]
    ours = [each for each in source.kernels if each.schedule == "wgmma"]
    assert len(ours) >= 6
    odd = [each for each in tiles(source.kernels, "wgmma") if each.endswith("along rows")]
    assert [each.split(", k")[0] for each in odd] == ["m 64, n 128", "m 128, n 256", "m 64, n 128"]
    assert [int(each.split("stages ")[1][0]) for each in odd] == [8, 4, 4], "alone on a multiprocessor, large, others"
    assert all(held(source, each) == {"sm_90a"} for each in ours)
    assert [used for symbol, _, used in source.fatbin.usage if used.spill_bytes] == []
    assert [note for note in source.notes if "(C7" in note] == [], "products that wait for each other"


@pytest.mark.parametrize("t", ["f16", "f32"])
def test_some_rows_that_begin_anywhere_are_stored_together(t: str) -> None:
    """Four are read before there is a condition: else each would wait for the one before it."""
    text = lowered(plain(512, 513, 512, t))
    kernel = text[text.rindex("nvvm.wgmma.mma_async") :].partition("llvm.func")[0]
    found = re.findall(r"load volatile|scf\.if|cond_br|llvm\.store .*ptr<1>", kernel)
    first = found.index("load volatile")
    assert found[first : first + 4] == ["load volatile"] * 4


STATIC = [("swapped", SWAPPED[0][1]), ("swapped and direct", SWAPPED[1][1])]
STATIC += [("flow", FLOWS[0][1]), ("flow and direct", FLOWS[1][1])]
STATIC += [("rows begin anywhere", plain(512, 513, 512, "f16")), ("and hold f32", plain(512, 513, 512, "f32"))]
STATIC += [("a width between", MATMUL.format(m=1536, n=1536, k=512))]
STATIC += [("rows between", plain(1536, 1536, 1536, "f16"))]
STATIC += [(f"flow of {n} columns", plain(16, n, 4096, "f16")) for n in (2048, 4096, 12288)]
STATIC += [("four blocks share a sum", MATMUL.format(m=128, n=1024, k=4096))]


@pytest.mark.parametrize("text", [row[1] for row in STATIC], ids=[row[0] for row in STATIC])
def test_special_tiles_compile_to_good_code(tmp_path: Path, text: str) -> None:
    source = compiled(tmp_path, text, "sm_90")
    assert source.fatbin is not None
    assert [used for symbol, _, used in source.fatbin.usage if used.spill_bytes] == []
    assert [note for note in source.notes if "(C7" in note] == [], "products that wait for each other"


PRODUCT = """
func.func @f(%a: tensor<{m}x{k}x{t}>, %b: tensor<{right}x{t}>, %c: tensor<{m}x{n}x{sums}>) -> tensor<{m}x{n}x{sums}> {{
  %z = arith.constant 0.0 : {sums}
  %f = linalg.fill ins(%z : {sums}) outs(%c : tensor<{m}x{n}x{sums}>) -> tensor<{m}x{n}x{sums}>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> {map}>,
      affine_map<(m, n, k) -> (m, n)>] {attributes} ins(%a, %b : tensor<{m}x{k}x{t}>, tensor<{right}x{t}>)
      outs({start} : tensor<{m}x{n}x{sums}>) -> tensor<{m}x{n}x{sums}>
  return %r : tensor<{m}x{n}x{sums}>
}}
"""


def product(
    kind: str, *, columns: bool, adds: bool = True, sizes: tuple[object, object, object] = ("?", "?", "?")
) -> str:
    """A product of any type; ``columns``: those of the right factor are contiguous; ``adds``: to what there was."""
    m, n, k = sizes
    element = {"tf32": "f32", "e4m3": "f8E4M3FN"}.get(kind, kind)
    return PRODUCT.format(
        **{"m": m, "n": n, "k": k, "t": element, "sums": "f64" if kind == "f64" else "f32"},
        right=f"{k}x{n}" if columns else f"{n}x{k}",
        map="(k, n)" if columns else "(n, k)",
        start="%c" if adds else "%f",
        attributes='{aot.precision = "tf32"}' if kind == "tf32" else "",
    )


@pytest.mark.parametrize(("rows", "expected"), [(2, [FLOW + "direct"]), (1, [])])
def test_one_row_stays_with_threads_where_weights_lie_along_the_sum(rows: int, expected: list[str]) -> None:
    text = product("f16", columns=False, adds=False, sizes=(rows, 14336, 4096))
    assert [each for each in tiles(chosen(text), "wgmma") if "swapped" in each] == expected


OTHER_TYPES = {
    "f32": ("f32", True, True, {"ffma"}),
    "f64": ("f64", True, True, {"ffma", "dmma"}),
    "tf32 by columns": ("tf32", True, True, {"wgmma", "mma", "turn"}),
    "tf32 alone": ("tf32", False, False, {"wgmma", "mma"}),
    "e4m3": ("e4m3", False, True, {"wgmma", "mma"}),
}


@pytest.mark.parametrize(("kind", "columns", "adds", "schedules"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_products_of_other_types_compile_to_good_code(
    tmp_path: Path, kind: str, columns: bool, adds: bool, schedules: set[str]
) -> None:
    source = compiled(tmp_path, product(kind, columns=columns, adds=adds), "sm_90")
    assert source.fatbin is not None
    assert schedules <= {each.schedule for each in source.kernels}
    assert [used for symbol, _, used in source.fatbin.usage if used.spill_bytes] == []
    assert [note for note in source.notes if "(C7" in note] == []


def test_columns_of_four_bytes_go_through_registers() -> None:
    """Tensor cores take them so as the left factor, which the right one becomes: nothing is copied first."""
    kernels = chosen(product("tf32", columns=True, sizes=(4096, 4096, 4096)))
    found = tiles(kernels, "wgmma")
    assert found[0] == "m 256, n 128, k 32, stages 4, cluster 1, tf32, swapped, direct"
    less = chosen(product("tf32", columns=True, sizes=(1024, 1024, 4096)))
    assert tiles(less, "wgmma")[0].startswith("m 128, n 64, k 32, stages 4, cluster 1, tf32, swapped")
    few = chosen(product("tf32", columns=True, sizes=(300, 520, 4096)))
    assert not [each for each in tiles(few, "wgmma") if "swapped" in each], "few tiles take long"


ATTENTION = """
#query = affine_map<(b, m, n, k) -> (b, m, k)>
#key = affine_map<(b, m, n, k) -> (b, n, k)>
#value = affine_map<(b, m, n, k) -> (b, k, n)>
#score = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(b, m, n) -> (b, m, n)>

func.func @f(%q: tensor<2x256x{d}x{t}>, %k: tensor<2x256x{d}x{t}>, %v: tensor<2x256x{d}x{t}>, %o: tensor<2x256x{d}x{t}>)
    -> {results} {{
  %z = arith.constant 0.0 : f32
  %nothing = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<2x256x256xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x256x256xf32>) -> tensor<2x256x256xf32>
  %s = linalg.generic {{indexing_maps = [#query, #key, #score],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%q, %k : tensor<2x256x{d}x{t}>, tensor<2x256x{d}x{t}>) outs(%f : tensor<2x256x256xf32>) {{
  ^bb0(%x: {t}, %y: {t}, %old: f32):
    %wx = arith.extf %x : {t} to f32
    %wy = arith.extf %y : {t} to f32
    %p = arith.mulf %wx, %wy : f32
    %r = arith.addf %old, %p : f32
    linalg.yield %r : f32
  }} -> tensor<2x256x256xf32>
  %scores = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%s : tensor<2x256x256xf32>) outs(%e : tensor<2x256x256xf32>) {{
  ^bb0(%x: f32, %old: f32):
    %t = arith.mulf %x, %scale : f32
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %seen = arith.cmpi {predicate}, %j, %i : index
    %u = arith.select %seen, %t, %nothing : f32
    linalg.yield {score} : f32
  }} -> tensor<2x256x256xf32>
  %w = linalg.softmax dimension(2) ins(%scores : tensor<2x256x256xf32>) outs(%e : tensor<2x256x256xf32>)
      -> tensor<2x256x256xf32>
  %he = tensor.empty() : tensor<2x256x256x{t}>
  %h = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%w : tensor<2x256x256xf32>) outs(%he : tensor<2x256x256x{t}>) {{
  ^bb0(%x: f32, %old: {t}):
    %t = arith.truncf %x : f32 to {t}
    linalg.yield %t : {t}
  }} -> tensor<2x256x256x{t}>
  %oe = tensor.empty() : tensor<2x256x{d}xf32>
  %of = linalg.fill ins(%z : f32) outs(%oe : tensor<2x256x{d}xf32>) -> tensor<2x256x{d}xf32>
  %p = linalg.generic {{indexing_maps = [#query, #value, #score],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%h, %v : tensor<2x256x256x{t}>, tensor<2x256x{d}x{t}>) outs(%of : tensor<2x256x{d}xf32>) {{
  ^bb0(%x: {t}, %y: {t}, %old: f32):
    %wx = arith.extf %x : {t} to f32
    %wy = arith.extf %y : {t} to f32
    %p = arith.mulf %wx, %wy : f32
    %r = arith.addf %old, %p : f32
    linalg.yield %r : f32
  }} -> tensor<2x256x{d}xf32>
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%p : tensor<2x256x{d}xf32>) outs(%o : tensor<2x256x{d}x{t}>) {{
  ^bb0(%x: f32, %old: {t}):
    %t = arith.truncf %x : f32 to {t}
    linalg.yield %t : {t}
  }} -> tensor<2x256x{d}x{t}>
  return {returned} : {results_}
}}
"""


def attention(d: int = 64, t: str = "f16", *, predicate: str = "ule", score: str = "%u", scores: bool = False) -> str:
    """Attention, of which the scores may be returned, too."""
    result, returned = f"tensor<2x256x{d}x{t}>", "%r"
    results, listed = result, result
    if scores:
        returned, listed = "%r, %scores", f"{result}, tensor<2x256x256xf32>"
        results = f"({listed})"
    names = {"d": d, "t": t, "predicate": predicate, "score": score}
    return ATTENTION.format(**names, results=results, results_=listed, returned=returned)


FLASH = "queries 128, keys 128, depth {d}, width {d}, stages {n}"
ATTENTIONS = [
    ("all keys", attention(score="%t"), [FLASH.format(d=64, n=3)]),
    ("keys up to the query", attention(128), [f"{FLASH.format(d=128, n=2)}, causal"]),
    ("another mask", attention(t="bf16", predicate="uge"), [FLASH.format(d=64, n=3)]),
    ("zeros behind the elements", attention(80), [f"{FLASH.format(d=80, n=2)}, causal"]),
    ("more elements than it has registers for", attention(136), []),
    ("somebody else sees the scores", attention(scores=True), []),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in ATTENTIONS], ids=[row[0] for row in ATTENTIONS])
def test_attention_is_one_kernel(text: str, expected: list[str]) -> None:
    kernels = chosen(text)
    assert tiles(kernels, "flash") == expected
    assert any(not each.needs for each in kernels), "something runs where TMA cannot read the arrays"


@pytest.mark.parametrize("text", [MATMUL.format(m=512, n=512, k=512), plain(16, 14336, 4096, "f16")])
def test_the_hardware_elects_who_begins_copies(text: str) -> None:
    """Otherwise ptxas makes a loop over threads of each copy."""
    copying = [each for each in lowered(text).split("llvm.func ") if "nvvm.cp.async.bulk.tensor.shared" in each]
    assert copying
    for each in copying:
        before, elected, after = each.partition("nvvm.elect.sync")
        assert elected
        assert "nvvm.cp.async.bulk.tensor.shared" in after
        assert "nvvm.cp.async.bulk.tensor.shared" not in before


def test_attention_compiles_to_good_code(tmp_path: Path) -> None:
    source = compiled(tmp_path, attention(128), "sm_90")
    assert source.fatbin is not None
    kernel = next(each for each in source.kernels if each.schedule == "flash")
    assert held(source, kernel) == {"sm_90a"}
    assert [used.spill_bytes for symbol, _, used in source.fatbin.usage if symbol == kernel.symbol] == [0]
    assert [note for note in source.notes if "(C7" in note] == [], "products that wait for each other"
