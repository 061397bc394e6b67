// Destination style: a tensor argument that only serves as `outs` of the op whose result is returned is a destination.
// It is written, and the call returns it; every other tensor argument is a value that the call never changes.

// x * x, written into `out`
func.func @square(%x: tensor<10x10xf32>, %out: tensor<10x10xf32>) -> tensor<10x10xf32> {
  %r = linalg.square ins(%x : tensor<10x10xf32>) outs(%out : tensor<10x10xf32>) -> tensor<10x10xf32>
  return %r : tensor<10x10xf32>
}
