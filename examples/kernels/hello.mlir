// Printing from a kernel.

// Two threads say hello. The call returns after the text has been written.
func.func @hello() {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c2, %sy = %c1, %sz = %c1) {
    %t = arith.index_cast %tx : index to i32
    gpu.printf "Hello from %d\n", %t : i32
    gpu.terminator
  }
  return
}
