// Asynchronous copies to workgroup memory (cp.async, sm_80 and later), at kernel level.
// Precondition: the length is a multiple of 512.
#workgroup = #gpu.address_space<workgroup>
gpu.module @staging {
  // out = x with each run of 512 elements reversed
  gpu.func @reverse_tiles(%x: memref<?xf32>, %out: memref<?xf32>)
      workgroup(%tile: memref<512xf32, #workgroup> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 128, 1, 1>,
                         aot.grid = [affine_map<(n, n2) -> (n floordiv 512)>], aot.block = [128]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c511 = arith.constant 511 : index
    %c512 = arith.constant 512 : index
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %first = arith.muli %block, %c512 : index
    %own = arith.muli %thread, %c4 : index
    %from = arith.addi %first, %own : index
    %copy = nvgpu.device_async_copy %x[%from], %tile[%own], 4 : memref<?xf32> to memref<512xf32, #workgroup>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group {numGroups = 0 : i32}
    gpu.barrier
    scf.for %e = %c0 to %c4 step %c1 {
      %at = arith.addi %own, %e : index
      %mirror = arith.subi %c511, %at : index
      %v = memref.load %tile[%mirror] : memref<512xf32, #workgroup>
      %to = arith.addi %first, %at : index
      memref.store %v, %out[%to] : memref<?xf32>
    }
    gpu.return
  }
}
