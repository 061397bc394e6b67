gpu.module @m {
  gpu.func @k(%x: memref<?xindex>) kernel {
    %c = arith.constant -1 : index
    %n = memref.dim %x, %c : memref<?xindex>
    %c0 = arith.constant 0 : index
    memref.store %n, %x[%c0] : memref<?xindex>
    gpu.return
  }
}
