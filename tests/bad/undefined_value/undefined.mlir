func.func @f() -> f32 {
  return %nothing : f32
}
