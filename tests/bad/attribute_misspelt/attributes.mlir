gpu.module @m {
  gpu.func @k(%x: memref<?xf32>) kernel attributes {aot.gird = [1]} {
    gpu.return
  }
}
