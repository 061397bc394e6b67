gpu.module @m {
  gpu.func @k(%x: memref<4xf32>) kernel attributes {aot.needs = 90} {
    gpu.return
  }
}
