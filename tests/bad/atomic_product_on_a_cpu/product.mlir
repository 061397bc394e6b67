func.func @f(%x: memref<4xf32>, %v: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %o = memref.atomic_rmw mulf %v, %x[%c1] : (f32, memref<4xf32>) -> f32
    scf.reduce
  }
  return
}
