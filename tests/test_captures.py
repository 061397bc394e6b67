"""What launches pass to kernels of our own, and when these begin."""

from __future__ import annotations

import pytest
from lowering import lower

from aot import arch, mlir
from aot.lower import device
from aot.lower.device import DeviceJob, Lowering
from aot.model import ScalarType

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


@pytest.mark.parametrize(("name", "waits"), [("sm_80", False), ("sm_90", True), ("compute_90", True)])
def test_kernels_wait_for_the_work_ahead_of_them_where_the_target_can(name: str, waits: bool) -> None:
    done = lower(APART)
    assert all(kernel.programmatic for kernel in done.kernels)
    with mlir.context() as ctx:
        isolated = device.isolate(mlir.parse(done.host.encode(), "test.mlir", ctx))
        lowering = Lowering(isolated)
        module = lowering.lower(DeviceJob(arch.target(name), (8, 6)))
        text = str(module)
    waiting, calling = text.count("griddepcontrol  wait"), text.count("griddepcontrol.launch_dependents")
    assert waiting == calling == waits * len(done.kernels)


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
