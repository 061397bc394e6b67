func.func @f(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<4xf32> {
  %z = "arith.addf"(%x, %y) : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
