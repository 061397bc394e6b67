func.func @f(%x: f64) -> f64 {
  %wide = arith.extf %x : f64 to f128
  %s = math.sinh %wide : f128
  %r = arith.truncf %s : f128 to f64
  return %r : f64
}
