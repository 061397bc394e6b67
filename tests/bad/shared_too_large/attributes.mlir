gpu.module @m {
  gpu.func @k(%x: memref<?xf32>) kernel attributes {aot.shared = 999999} {
    gpu.return
  }
}
