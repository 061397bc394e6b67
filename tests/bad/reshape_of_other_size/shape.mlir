func.func @f(%x: tensor<7xf32>) -> tensor<?x4xf32> {
  %two = arith.constant 2 : index
  %any = tensor.cast %x : tensor<7xf32> to tensor<?xf32>
  %r = tensor.expand_shape %any [[0, 1]] output_shape [%two, 4] : tensor<?xf32> into tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
