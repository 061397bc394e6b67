// Text from kernels reaches standard output before the call returns, also when the program ends right after it.
func.func @table(%rows: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %row = %c0 to %rows step %c1 {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c3, %sy = %c1, %sz = %c1) {
      %r = arith.index_cast %row : index to i64
      %t = arith.index_cast %tx : index to i32
      %f = arith.sitofp %t : i32 to f64
      gpu.printf "row %lld thread %d value %f\n", %r, %t, %f : i64, i32, f64
      gpu.terminator
    }
  }
  return
}
