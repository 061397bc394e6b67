func.func @g() -> f32 {
  return
}
