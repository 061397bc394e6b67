func.func @f(%x: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<8xf32, affine_map<(i) -> (i floordiv 2)>>
  linalg.fill ins(%zero : f32) outs(%a : memref<8xf32, affine_map<(i) -> (i floordiv 2)>>)
  return
}
