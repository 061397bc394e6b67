gpu.module @m {
  llvm.func @nowhere(f32) -> f32
  gpu.func @k(%x: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %value = memref.load %x[%c0] : memref<?xf32>
    %other = llvm.call @nowhere(%value) : (f32) -> f32
    memref.store %other, %x[%c0] : memref<?xf32>
    gpu.return
  }
}
