func.func @hello() {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%a, %b, %c) in (%g = %c1, %h = %c1, %i = %c1)
             threads(%d, %e, %f) in (%j = %c1, %k = %c1, %l = %c1) {
    gpu.printf "thread %d of %d\n", %d : index
    gpu.terminator
  }
  return
}
