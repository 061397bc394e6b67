func.func @f(%x: memref<?xf32>) {
  %n = arith.constant -4 : index
  %z = arith.constant 0.0 : f32
  %v = memref.reinterpret_cast %x to offset: [%n], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
  linalg.fill ins(%z : f32) outs(%v : memref<?xf32, strided<[1], offset: ?>>)
  return
}
