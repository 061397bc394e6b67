// cf.assert inside a kernel: the driver's assert error. It ends the context, so tests call it in a process of its own.
func.func @below(%limit: i32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
    %t = arith.index_cast %tx : index to i32
    %ok = arith.cmpi slt, %t, %limit : i32
    cf.assert %ok, "thread out of range"
    gpu.terminator
  }
  return
}
