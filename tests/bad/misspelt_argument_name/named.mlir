func.func @f(%a: tensor<4xf32>, %0: tensor<4xf32> {aot.nmae = "b"}) -> (tensor<4xf32> {aot.name = "c"}) {
  return %0 : tensor<4xf32>
}
