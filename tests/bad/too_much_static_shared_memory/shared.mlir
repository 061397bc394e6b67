gpu.module @m {
  gpu.func @k(%out: memref<1xf32>) workgroup(%tile: memref<65536xf32, 3>) kernel {
    %i = gpu.thread_id x
    %v = memref.load %out[%i] : memref<1xf32>
    memref.store %v, %tile[%i] : memref<65536xf32, 3>
    gpu.barrier
    %w = memref.load %tile[%i] : memref<65536xf32, 3>
    memref.store %w, %out[%i] : memref<1xf32>
    gpu.return
  }
}
