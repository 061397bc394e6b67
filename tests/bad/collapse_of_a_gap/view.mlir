func.func @f(%x: memref<8x8xf32, strided<[16, 1]>>) {
  %zero = arith.constant 0.0 : f32
  %any = memref.cast %x : memref<8x8xf32, strided<[16, 1]>> to memref<?x?xf32, strided<[?, ?]>>
  %few = memref.subview %any[0, 0] [4, 8] [2, 1] : memref<?x?xf32, strided<[?, ?]>> to memref<4x8xf32, strided<[?, ?]>>
  %row = memref.collapse_shape %few [[0, 1]] : memref<4x8xf32, strided<[?, ?]>> into memref<32xf32, strided<[?]>>
  linalg.fill ins(%zero : f32) outs(%row : memref<32xf32, strided<[?]>>)
  return
}
