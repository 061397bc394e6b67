func.func @fine(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @f(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %r = linalg.powf ins(%x, %y : tensor<4xi8>, tensor<4xi8>) outs(%x : tensor<4xi8>) -> tensor<4xi8>
  return %r : tensor<4xi8>
}
