func.func @f(%x: memref<64xf32>, %v: f32) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  gpu.launch blocks(%b0, %b1, %b2) in (%g0 = %c1, %g1 = %c1, %g2 = %c1)
      threads(%t0, %t1, %t2) in (%s0 = %c64, %s1 = %c1, %s2 = %c1) {
    memref.store %v, %x[%t0] : memref<64xf32>
    gpu.terminator
  } {aot.needs = 90}
  return
}
