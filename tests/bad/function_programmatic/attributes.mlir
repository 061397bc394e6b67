func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {aot.programmatic = "maybe"} {
  return %x : tensor<4xf32>
}
