func.func @f(%x: memref<?xf32>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 2048 : index
  %z = arith.constant 0.0 : f32
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    memref.store %z, %x[%tx] : memref<?xf32>
    gpu.terminator
  }
  return
}
