func.func @f() -> memref<4xf32> {
  %c1 = arith.constant 1 : index
  %host = memref.alloc() : memref<4xf32>
  gpu.launch blocks(%a, %b, %c) in (%g = %c1, %h = %c1, %i = %c1)
             threads(%d, %e, %f) in (%j = %c1, %k = %c1, %l = %c1) {
    gpu.terminator
  }
  return %host : memref<4xf32>
}
