memref.global "private" constant @w : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @g(%a: memref<4xf32>) {
  %w = memref.get_global @w : memref<4xf32>
  linalg.add ins(%a, %w : memref<4xf32>, memref<4xf32>) outs(%a : memref<4xf32>)
  return
}
func.func @gr() -> memref<4xf32> {
  %w = memref.get_global @w : memref<4xf32>
  return %w : memref<4xf32>
}
