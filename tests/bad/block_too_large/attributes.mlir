gpu.module @m {
  gpu.func @k(%x: memref<?xf32>) kernel attributes {aot.block = [2048]} {
    gpu.return
  }
}
