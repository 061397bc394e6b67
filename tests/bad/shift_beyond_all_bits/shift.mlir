func.func @f(%x: i32) -> i32 {
  %wide = arith.extsi %x : i32 to i128
  %far = arith.constant 36893488147419103232 : i128
  %y = arith.shli %wide, %far : i128
  %r = arith.trunci %y : i128 to i32
  return %r : i32
}
