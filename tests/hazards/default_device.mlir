// A device is chosen by host code, and work goes there: x[i] = i.
func.func @counted(%x: memref<?xi32>, %device: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  gpu.set_default_device %device
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %i = arith.index_cast %bx : index to i32
    memref.store %i, %x[%bx] : memref<?xi32>
    gpu.terminator
  }
  return
}
