func.func @f(%x: f32, %y: f32 {aot.name = "lambda"}) -> f32 {
  return %x : f32
}
