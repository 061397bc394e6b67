#CSR = #sparse_tensor.encoding<{map = (i, j) -> (i : dense, j : compressed)}>
func.func @f(%x: tensor<8x8xf32, #CSR>) -> tensor<8x8xf32> {
  %y = sparse_tensor.convert %x : tensor<8x8xf32, #CSR> to tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
