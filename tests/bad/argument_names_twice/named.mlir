func.func @f(%x: f32 {aot.name = "a"}, %y: f32 {aot.name = "a"}) -> f32 {
  return %x : f32
}
