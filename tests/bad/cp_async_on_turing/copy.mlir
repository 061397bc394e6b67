// Asynchronous copies came with sm_80.
gpu.module @m {
  gpu.func @copy(%src: memref<128xf32>, %out: memref<128xf32>) workgroup(%tile: memref<128xf32, 3>) kernel {
    %i = gpu.thread_id x
    %token = nvgpu.device_async_copy %src[%i], %tile[%i], 1 : memref<128xf32> to memref<128xf32, 3>
    %group = nvgpu.device_async_create_group %token
    nvgpu.device_async_wait %group {numGroups = 0 : i32}
    gpu.barrier
    %v = memref.load %tile[%i] : memref<128xf32, 3>
    memref.store %v, %out[%i] : memref<128xf32>
    gpu.return
  }
}
