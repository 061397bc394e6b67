"""Contractions on Hopper's tensor cores: which kernel is chosen, and what ptxas makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiledsource import compiled, held

from aot import lower as lowering
from aot import mlir
from aot.lower import tensor
from aot.model import Kernel

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


def chosen(text: str, capabilities: tuple[tuple[int, int], ...] = ((9, 0),)) -> tuple[Kernel, ...]:
    """Kernels of a source, as they are before they are compiled."""
    with mlir.context() as ctx:
        module = mlir.parse(text.encode(), "f.mlir", ctx)
        options = tensor.Options(capabilities=capabilities)
        return lowering.lower(module, lowering.Request("f", {}, options), mlir.no_dump).kernels


def tiles(kernels: tuple[Kernel, ...], schedule: str) -> list[str]:
    return [each.tiling.text() for each in kernels if each.schedule == schedule and each.tiling]


CHOICES = [
    ("large", (4096, 4096, 4096), "m 128, n 256, k 64, stages 4, cluster 2, staged"),
    ("two waves", (2048, 2048, 2048), "m 128, n 256, k 64, stages 4, cluster 1, staged"),
    ("another width fills the waves", (3072, 3072, 3072), "m 128, n 192, k 64, stages 4, cluster 1, staged"),
    ("fewer tiles than places", (512, 512, 512), "m 64, n 128, k 64, stages 6, cluster 1, staged"),
    ("few rows", (16, 4096, 4096), "m 64, n 64, k 64, stages 6, cluster 2, split 2, direct"),
    ("pairs cannot be aligned", (512, 513, 512), ""),
]


@pytest.mark.parametrize(("sizes", "expected"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_the_tile_follows_the_extents(sizes: tuple[int, int, int], expected: str) -> None:
    m, n, k = sizes
    kernels = chosen(MATMUL.format(m=m, n=n, k=k))
    assert tiles(kernels, "wgmma") == ([expected] if expected else [])
    assert all(each.needs == "sm_90a" for each in kernels if each.schedule == "wgmma")
    assert any(not each.needs for each in kernels), "something runs where TMA cannot read the arrays"


def test_other_images_do_without() -> None:
    assert not tiles(chosen(MATMUL.format(m=512, n=512, k=512), ((8, 0), (10, 0))), "wgmma")


def test_a_product_of_any_size_compiles_to_good_code(tmp_path: Path) -> None:
    source = compiled(tmp_path, MATMUL.format(m="?", n="?", k="?"), "sm_90")
    assert source.fatbin is not None
    assert [(image.requested, image.target) for image in source.fatbin.images] == [("sm_90", "sm_90a")]
    ours = [each for each in source.kernels if each.schedule == "wgmma"]
    assert len(ours) >= 6
    assert all(held(source, each) == {"sm_90a"} for each in ours)
    assert [used for symbol, _, used in source.fatbin.usage if used.spill_bytes] == []
    assert [note for note in source.notes if "(C7" in note] == [], "products that wait for each other"
