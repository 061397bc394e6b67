gpu.module @m [#nvvm.target<chip = "sm_35">] {
  gpu.func @k(%x: memref<?xf32>) kernel {
    gpu.return
  }
}
