gpu.module @m {
  gpu.func @k(%x: memref<4xf32>) kernel {
    %i = gpu.thread_id x
    %v = memref.load %x[%i] : memref<4xf32>
    %r, %there = gpu.rotate %v, 1, 16 : f32
    memref.store %r, %x[%i] : memref<4xf32>
    gpu.return
  }
}
