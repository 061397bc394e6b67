func.func @f(%x: tensor<4xf32>) -> tensor<4xf16> {
  %r = arith.truncf %x toward_zero : tensor<4xf32> to tensor<4xf16>
  return %r : tensor<4xf16>
}
