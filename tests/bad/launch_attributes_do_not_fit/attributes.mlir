gpu.module @m {
  gpu.func @k(%x: memref<4xf32>) kernel attributes {aot.grid = [1, 2, 3, 4]} {
    gpu.return
  }
}
