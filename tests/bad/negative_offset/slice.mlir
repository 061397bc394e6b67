func.func @f(%x: tensor<4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %o = arith.constant -1 : index
  %r = tensor.insert_slice %x into %y[%o] [4] [1] : tensor<4xf32> into tensor<?xf32>
  return %r : tensor<?xf32>
}
