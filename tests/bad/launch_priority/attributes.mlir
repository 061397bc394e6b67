func.func @f(%x: memref<?xf32>) {
  %c = arith.constant 1 : index
  gpu.launch blocks(%a, %b, %d) in (%e = %c, %g = %c, %h = %c)
      threads(%i, %j, %k) in (%l = %c, %m = %c, %n = %c) {
    gpu.terminator
  } {aot.priority = "x"}
  return
}
