gpu.module @m {
  gpu.func @k(%x: memref<4xf32>, %y: memref<4xf32>) kernel {
    %i = gpu.thread_id x
    gpu.memcpy %x, %y : memref<4xf32>, memref<4xf32>
    vector.print %i : index
    gpu.return
  }
}
