func.func @f(%v: f32) -> tensor<4000000000x4000000000xf32> {
  %r = tensor.splat %v : tensor<4000000000x4000000000xf32>
  return %r : tensor<4000000000x4000000000xf32>
}
