// async.execute regions run one after the other, in order.

// x[i] = 3 * x[i] + 1 in two async.execute regions, the second waiting for the first.
func.func @executed(%x: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  %first = async.execute {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
      %three = arith.constant 3 : i32
      %v = memref.load %x[%bx] : memref<?xi32>
      %w = arith.muli %v, %three : i32
      memref.store %w, %x[%bx] : memref<?xi32>
      gpu.terminator
    }
    async.yield
  }
  %second = async.execute [%first] {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
      %one = arith.constant 1 : i32
      %v = memref.load %x[%bx] : memref<?xi32>
      %w = arith.addi %v, %one : i32
      memref.store %w, %x[%bx] : memref<?xi32>
      gpu.terminator
    }
    async.yield
  }
  async.await %second : !async.token
  return
}
