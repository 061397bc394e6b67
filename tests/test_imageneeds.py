"""Kernels that only some images hold, compiled from source to fatbin."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiledsource import compiled, held

from aot.errors import LoweringError
from aot.model import CompiledSource
from aot.packages import tables
from aot.targets import archneed

SOURCE = """
func.func private @aot_rt_serves(i32) -> i32

func.func @f(%x: memref<?xf32>, %n: index) {{
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : i32
  %need = arith.constant {code} : i32
  %found = func.call @aot_rt_serves(%need) : (i32) -> i32
  %holds = arith.cmpi ne, %found, %zero : i32
  scf.if %holds {{
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
               threads(%tx, %ty, %tz) in (%sx = %n, %sy = %one, %sz = %one) {{
      {special}
      gpu.terminator
    }} {{aot.needs = "{need}"}}
  }} else {{
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
               threads(%tx, %ty, %tz) in (%sx = %n, %sy = %one, %sz = %one) {{
      %value = arith.constant 1.0 : f32
      memref.store %value, %x[%tx] : memref<?xf32>
      gpu.terminator
    }}
  }}
  return
}}
"""
CLUSTER = "nvvm.cluster.arrive\nnvvm.cluster.wait"
WGMMA = "nvvm.wgmma.fence.aligned"


def with_need(folder: Path, need: str, code: int, special: str, archs: str) -> CompiledSource:
    return compiled(folder, SOURCE.format(need=need, code=code, special=special), archs)


def test_a_kernel_is_left_out_of_images_that_cannot_hold_it(tmp_path: Path) -> None:
    source = with_need(tmp_path, "sm_90", 90 << 8, CLUSTER, "sm_80 sm_90 compute_80")
    special, general = source.kernels
    assert (special.needs, special.targets) == ("sm_90", ("sm_90",))
    assert (general.needs, general.targets) == ("", ("sm_80", "sm_90", "compute_80"))
    assert (held(source, special), held(source, general)) == ({"sm_90"}, {"sm_80", "sm_90"})


def test_plain_hopper_is_served_by_code_of_its_own(tmp_path: Path) -> None:
    source = with_need(tmp_path, "sm_90a", 90 << 8 | ord("a"), WGMMA, "sm_80 sm_90 compute_90")
    assert source.fatbin is not None
    images = [(image.requested, image.target) for image in source.fatbin.images]
    assert images == [("sm_80", "sm_80"), ("sm_90", "sm_90a"), ("compute_90", "compute_90")]
    assert source.kernels[0].targets == ("sm_90a",)
    assert source.kernels[1].targets == ("sm_80", "sm_90a", "compute_90")


def test_a_need_that_is_no_architecture_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoweringError) as caught:
        with_need(tmp_path, "sm_9", 0, CLUSTER, "sm_90")
    assert "unknown architecture 'sm_9'" in caught.value.diagnostics[0].message


PRODUCT = """
func.func @f(%a: tensor<2048x2048xf16>, %b: tensor<2048x2048xf16>, %out: tensor<2048x2048xf32>)
    -> tensor<2048x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %p = linalg.matmul ins(%a, %b : tensor<2048x2048xf16>, tensor<2048x2048xf16>)
      outs(%start : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %p : tensor<2048x2048xf32>
}
"""


def test_a_kernel_for_less_shared_memory_is_left_out_where_all_have_more(tmp_path: Path) -> None:
    """The one for more stays: ``wgmma`` does not store to every address that a caller may give."""
    source = compiled(tmp_path, PRODUCT, "sm_75 sm_80 sm_90 compute_90")
    large, small = (each for each in source.kernels if each.schedule == "mma")
    assert (large.needs, large.targets) == ("sm_80", ("sm_80", "sm_90a", "compute_90"))
    assert (small.needs, small.targets) == ("sm_80", ("sm_80", "compute_90"))
    assert (held(source, large), held(source, small)) == ({"sm_80", "sm_90a"}, {"sm_80"})
    # An image without the smaller one serves the need as well: host code that asks must not be told of that one.
    needs = {row.symbol: row.needs for row in tables.source_row(source).kernels}
    assert (needs[large.symbol], needs[small.symbol]) == (archneed.code("sm_80"), 0)


def test_a_kernel_that_branches_hide_from_no_gpu_is_in_all_images(tmp_path: Path) -> None:
    both = PRODUCT.replace("2048x2048xf16>, %b", "?x2048xf16>, %b").replace(
        "%a, %b : tensor<2048x", "%a, %b : tensor<?x"
    )
    both = both.replace("tensor<2048x2048xf32>", "tensor<?x2048xf32>")
    source = compiled(tmp_path, both, "sm_90")
    kernels = [each for each in source.kernels if each.schedule == "mma"]
    assert [each.targets for each in kernels] == [("sm_90a",)] * len(kernels)
    assert len(kernels) > 2


def test_branches_by_numbers_of_the_call_hide_nothing(tmp_path: Path) -> None:
    """They compare as questions for shared memory do."""
    kept, plain = "tensor<?xf32>", "linalg.map { math.%s } ins(%%x : tensor<?xf32>) outs(%%e : tensor<?xf32>)"
    source = compiled(
        tmp_path,
        f"""func.func @f(%x: {kept}, %n: index, %m: index) -> {kept} {{
          %c0 = arith.constant 0 : index
          %length = tensor.dim %x, %c0 : {kept}
          %e = tensor.empty(%length) : {kept}
          %long = arith.cmpi uge, %n, %m : index
          %y = scf.if %long -> {kept} {{
            %a = {plain % "absf"}
            scf.yield %a : {kept}
          }} else {{
            %b = {plain % "exp"}
            scf.yield %b : {kept}
          }}
          return %y : {kept}
        }}""",
        "sm_90",
    )
    assert {each.targets for each in source.kernels} == {("sm_90",)}
    assert len(source.kernels) >= 2
