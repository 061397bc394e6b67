func.func @f(%x: tensor<4x4xi32>, %y: tensor<4x4xf4E2M1FN>) -> (tensor<4x4xi32>, tensor<4x4xf4E2M1FN>) {
  %r = linalg.softmax dimension(1) ins(%x : tensor<4x4xi32>) outs(%x : tensor<4x4xi32>) -> tensor<4x4xi32>
  %s = linalg.softmax dimension(1) ins(%y : tensor<4x4xf4E2M1FN>) outs(%y : tensor<4x4xf4E2M1FN>)
      -> tensor<4x4xf4E2M1FN>
  return %r, %s : tensor<4x4xi32>, tensor<4x4xf4E2M1FN>
}
