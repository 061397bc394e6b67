// Softmax in f16 and along the first dimension, and a packed layout there and back.
func.func @rows_f16(%x: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf16>
  %n = tensor.dim %x, %c1 : tensor<?x?xf16>
  %e = tensor.empty(%m, %n) : tensor<?x?xf16>
  %r = linalg.softmax dimension(1) ins(%x : tensor<?x?xf16>) outs(%e : tensor<?x?xf16>) -> tensor<?x?xf16>
  return %r : tensor<?x?xf16>
}
func.func @columns(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.softmax dimension(0) ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
// -x, computed on 4 x 8 tiles with padding.
func.func @negated_in_tiles(%x: tensor<10x20xf32>) -> tensor<10x20xf32> {
  %pad = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x3x4x8xf32>
  %p = linalg.pack %x padding_value(%pad : f32) inner_dims_pos = [0, 1] inner_tiles = [4, 8] into %e
      : tensor<10x20xf32> -> tensor<3x3x4x8xf32>
  %e2 = tensor.empty() : tensor<3x3x4x8xf32>
  %n = linalg.negf ins(%p : tensor<3x3x4x8xf32>) outs(%e2 : tensor<3x3x4x8xf32>) -> tensor<3x3x4x8xf32>
  %e3 = tensor.empty() : tensor<10x20xf32>
  %r = linalg.unpack %n inner_dims_pos = [0, 1] inner_tiles = [4, 8] into %e3
      : tensor<3x3x4x8xf32> -> tensor<10x20xf32>
  return %r : tensor<10x20xf32>
}
