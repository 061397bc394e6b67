// Rank-0 arrays: no loop to distribute, yet nothing may be computed on the host.
func.func @product(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %r = linalg.mul ins(%a, %b : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
// Every scalar type there and back.
func.func @echo(%a: i8, %b: i16, %c: i32, %d: i64, %e: index, %f: f16, %g: f32, %h: f64)
    -> (i8, i16, i32, i64, index, f16, f32, f64) {
  return %a, %b, %c, %d, %e, %f, %g, %h : i8, i16, i32, i64, index, f16, f32, f64
}
