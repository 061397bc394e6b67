func.func @f() {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%i, %j, %k) in (%a = %c1, %b = %c1, %c = %c1)
             threads(%u, %v, %w) in (%d = %c1, %e = %c1, %g = %c1) {
    gpu.printf "launched\n"
    gpu.terminator
  }
  return
}
