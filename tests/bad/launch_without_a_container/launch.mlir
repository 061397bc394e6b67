gpu.module @m {
  gpu.func @k(%x: memref<4xf32>) kernel {
    gpu.return
  }
}
func.func @f(%x: memref<4xf32>) {
  %c1 = arith.constant 1 : index
  gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
  return
}
