func.func @tb(%m: memref<?xf32>) {
  %t = bufferization.to_tensor %m restrict writable : memref<?xf32> to tensor<?xf32>
  %r = math.exp %t : tensor<?xf32>
  bufferization.materialize_in_destination %r in restrict writable %m : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}
func.func @tobuf(%x: tensor<?xf32>) -> memref<?xf32> {
  %r = math.exp %x : tensor<?xf32>
  %m = bufferization.to_buffer %r : tensor<?xf32> to memref<?xf32>
  return %m : memref<?xf32>
}
func.func @lin(%a: memref<?x?xf32, strided<[?, 1], offset: ?>>, %o: memref<?x?xf32>) {
  linalg.exp ins(%a : memref<?x?xf32, strided<[?, 1], offset: ?>>) outs(%o : memref<?x?xf32>)
  return
}
func.func @allocs(%a: memref<?xf32>) -> memref<?xf32> {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  linalg.exp ins(%a : memref<?xf32>) outs(%t : memref<?xf32>)
  %u = memref.alloc(%n) : memref<?xf32>
  linalg.add ins(%a, %t : memref<?xf32>, memref<?xf32>) outs(%u : memref<?xf32>)
  return %u : memref<?xf32>
}
func.func @frees(%a: memref<?xf32>) -> memref<?xf32> {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  linalg.exp ins(%a : memref<?xf32>) outs(%t : memref<?xf32>)
  %u = memref.alloc(%n) : memref<?xf32>
  linalg.add ins(%a, %t : memref<?xf32>, memref<?xf32>) outs(%u : memref<?xf32>)
  memref.dealloc %t : memref<?xf32>
  return %u : memref<?xf32>
}
func.func @sub(%a: memref<8x8xf32>) -> memref<4x4xf32, strided<[8, 1], offset: 18>> {
  %s = memref.subview %a[2, 2] [4, 4] [1, 1] : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 18>>
  return %s : memref<4x4xf32, strided<[8, 1], offset: 18>>
}
func.func @ret(%a: memref<8xf32>) -> memref<?xf32> {
  %s = memref.cast %a : memref<8xf32> to memref<?xf32>
  return %s : memref<?xf32>
}
func.func @copy(%a: memref<8x8xf32>, %b: memref<8x8xf32, strided<[1, 8]>>) {
  memref.copy %a, %b : memref<8x8xf32> to memref<8x8xf32, strided<[1, 8]>>
  return
}
func.func @stack(%a: memref<8xf32>) {
  %t = memref.alloca() : memref<8xf32>
  linalg.exp ins(%a : memref<8xf32>) outs(%t : memref<8xf32>)
  linalg.copy ins(%t : memref<8xf32>) outs(%a : memref<8xf32>)
  return
}
func.func @unread(%a: memref<?x?xf16, strided<[?, ?], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %a, %c0 : memref<?x?xf16, strided<[?, ?], offset: ?>>
  %n = memref.dim %a, %c1 : memref<?x?xf16, strided<[?, ?], offset: ?>>
  %t = memref.alloc(%m, %n) : memref<?x?xf16>
  memref.copy %a, %t : memref<?x?xf16, strided<[?, ?], offset: ?>> to memref<?x?xf16>
  return
}
