"""What launches pass to kernels of our own."""

from __future__ import annotations

from lowering import lower

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
