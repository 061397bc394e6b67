"""TMA descriptors as parameters of kernels, from host code to the kernel."""

from __future__ import annotations

from aot import lower as lowering
from aot import mlir
from aot.lower.gpumodule.device import DeviceJob, Lowering
from aot.targets.arch import target

SOURCE = """
func.func private @aot_rt_tensor_axis(index, index, index)
func.func private @aot_rt_tensor_map(index, i32, i32) -> !llvm.ptr

func.func @f(%x: memref<?x?xf16>, %n: index) {
  %one = arith.constant 1 : index
  %box = arith.constant 64 : index
  %kind = arith.constant 6 : i32
  %address = memref.extract_aligned_pointer_as_index %x : memref<?x?xf16> -> index
  func.call @aot_rt_tensor_axis(%n, %one, %box) : (index, index, index) -> ()
  %map = func.call @aot_rt_tensor_map(%address, %kind, %kind) : (index, i32, i32) -> !llvm.ptr
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
             threads(%tx, %ty, %tz) in (%sx = %n, %sy = %one, %sz = %one) {
    %value = memref.load %x[%tx, %tx] : memref<?x?xf16>
    memref.store %value, %x[%tx, %bx] : memref<?x?xf16>
    nvvm.prefetch tensormap, %map : !llvm.ptr
    gpu.terminator
  }
  return
}
"""


def test_a_descriptor_is_passed_by_value() -> None:
    with mlir.context() as ctx:
        module = mlir.parse(SOURCE.encode(), "f.mlir", ctx)
        done = lowering.lower(module, lowering.Request("test", {}), mlir.no_dump)
        assert done.device is not None
        kernel = str(Lowering(done.device).lower(DeviceJob(target("sm_90"), (8, 0))))
    (params,) = (each.params for each in done.kernels)
    assert [each.type.text() for each in params].count("struct by value") == 1
    signature = next(line for line in kernel.splitlines() if "llvm.func @" in line and "nvvm.kernel" in line)
    arguments = signature[signature.index("(") :].split(", %")
    (passed,) = (each for each in arguments if "llvm.byval" in each)
    assert "nvvm.grid_constant" in passed
    assert "!llvm.ptr" in passed
    # What lies there is the parameter: its address stands in the table, not the address of a copy of the pointer.
    made = next(line for line in done.host_ir.splitlines() if "call ptr @aot_rt_tensor_map(" in line)
    name = made.split("=")[0].strip()
    assert f"store ptr {name}, ptr" in done.host_ir
    assert done.host_ir.count("alloca ptr, i64 1,") == 2, "the array's two pointers only"
