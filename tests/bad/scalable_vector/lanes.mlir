gpu.module @m {
  gpu.func @k(%x: memref<?xf32>) kernel {
    %zero = arith.constant dense<0.0> : vector<[4]xf32>
    %i = gpu.thread_id x
    vector.store %zero, %x[%i] : memref<?xf32>, vector<[4]xf32>
    gpu.return
  }
}
