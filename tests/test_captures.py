"""What launches pass to kernels of our own, and when these begin."""

from __future__ import annotations

import re

import pytest
from lowering import lower

from aot import mlir
from aot.dump import Dump
from aot.engine.forked import Alone
from aot.fatbins import images
from aot.fatbins.binary import BuiltImage
from aot.fatbins.images import Bench
from aot.lower.gpumodule import device
from aot.lower.gpumodule.device import DeviceJob, Lowering
from aot.model import ScalarType
from aot.settings.selection import Pick
from aot.targets import arch
from aot.tools import toolchain

APART = """
#turned = affine_map<(i, j) -> (j, i)>
#whole = affine_map<(i, j) -> (i, j)>
func.func @f(%x: memref<?x?xf32, strided<[?, 1], offset: ?>>, %o: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [#turned, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x?xf32, strided<[?, 1], offset: ?>>) outs(%o : memref<?x?xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  }
  return
}
"""
MOST = 2 + 2 + 2 + 2 * 3 + 1
"""Two addresses, an offset and strides, extents, what divides by two counts, whether there are vectors."""


def test_kernels_take_addresses_and_the_strides_that_they_use() -> None:
    kernels = lower(APART).kernels
    assert len(kernels) > 1
    for kernel in kernels:
        assert all(isinstance(each.type, ScalarType) for each in kernel.params)
        assert [each.type.text() for each in kernel.params].count("ptr") == 2
        assert len(kernel.params) <= MOST


@pytest.mark.parametrize("archs", ["sm_80 sm_90 compute_90", "sm_80 sm_90 compute_80"])
def test_kernels_wait_for_the_work_ahead_of_them_where_the_target_can(archs: str) -> None:
    done = lower(APART)
    assert all(kernel.programmatic for kernel in done.kernels)
    for image in built(done.host, archs):
        waits = "90" in image.image.target
        assert image.ptx.count("griddepcontrol.wait") == waits * len(done.kernels)
        assert image.ptx.count("griddepcontrol.launch_dependents") == waits * len(done.kernels)
        assert image.ptx.count("begin inline asm") == image.ptx.count("end inline asm")


def test_the_wait_is_before_anything_that_is_read_or_written() -> None:
    _, image = built(lower(APART).host, "sm_80 sm_90")
    for code in image.ptx.split(".entry ")[1:]:
        before = code[: code.index("griddepcontrol.wait")]
        assert re.search(r"\b(ld|st|atom|red)\.(global|shared|v\d)|cp\.async|\bbar\.|\bbra\b", before) is None
        assert re.search(r"\b(ld|st)\.global", code) is not None
        assert re.search(r"%(cta|t)id\.x", before) is not None, "a thread finds its place first"


def built(host: str, archs: str) -> list[BuiltImage]:
    picks = [Pick(arch.target(name), arch.target(name)) for name in archs.split()]
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(host.encode(), "test.mlir", ctx))
        return images.build(isolated, picks, Bench("test.mlir", toolchain.find(environment={}), Dump(None), Alone()))


COLUMNS = """
func.func @f(%x: tensor<300x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.reduce { arith.addf } ins(%x : tensor<300x64xf32>) outs(%f : tensor<64xf32>) dimensions = [0]
  return %r : tensor<64xf32>
}
"""


def test_threads_that_the_host_turns_out_to_know_need_no_limit() -> None:
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(lower(COLUMNS).host.encode(), "test.mlir", ctx))
        lowering = Lowering(isolated)
        kernels = str(lowering.lower(DeviceJob(arch.target("sm_90"), (8, 6))))
    assert kernels.count("nvvm.maxntid") == kernels.count("gpu.known_block_size") > 0


@pytest.mark.parametrize(("odd", "word"), [("i4", "i8"), ("i24", "i32"), ("i48", "i64")])
def test_integers_of_odd_widths_travel_in_words(odd: str, word: str) -> None:
    lowered = lower(f"""func.func @f(%n: index, %a: {odd}) -> tensor<?x{word}> {{
      %e = arith.extsi %a : {odd} to {word}
      %x = tensor.splat %e[%n] : tensor<?x{word}>
      return %x : tensor<?x{word}>
    }}
    func.func @g(%x: memref<?x{word}>, %a: {odd}) {{
      %c1 = arith.constant 1 : index
      gpu.launch blocks(%i, %j, %k) in (%l = %c1, %m = %c1, %n = %c1)
          threads(%p, %q, %r) in (%s = %c1, %t = %c1, %u = %c1) {{
        %e = arith.extsi %a : {odd} to {word}
        memref.store %e, %x[%p] : memref<?x{word}>
        gpu.terminator
      }}
      return
    }}""")
    assert len(lowered.kernels) == 2
    for kernel in lowered.kernels:
        kinds = [each.type.dtype for each in kernel.params if isinstance(each.type, ScalarType)]
        assert odd not in kinds
        assert word in kinds
