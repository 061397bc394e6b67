func.func @f(%x: memref<8xf32>, %n: index) {
  %zero = arith.constant 0.0 : f32
  affine.if affine_set<(i) : (i mod 0 == 0)>(%n) {
    linalg.fill ins(%zero : f32) outs(%x : memref<8xf32>)
  }
  return
}
