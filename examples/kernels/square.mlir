// Destination style: `square(x, out)` writes x * x into `out` and returns `out` itself.
//
// A tensor argument that only serves as `outs` of the op whose result is returned is a destination;
// every other tensor argument is a value that the call never changes.
func.func @square(%x: tensor<10x10xf32>, %out: tensor<10x10xf32>) -> tensor<10x10xf32> {
  %r = linalg.square ins(%x : tensor<10x10xf32>) outs(%out : tensor<10x10xf32>) -> tensor<10x10xf32>
  return %r : tensor<10x10xf32>
}
