// Two independent token chains, joined at the end: each may run on a stream of its own.
func.func @two_chains(%a: memref<?xi32>, %b: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %na = memref.dim %a, %c0 : memref<?xi32>
  %nb = memref.dim %b, %c0 : memref<?xi32>
  %s0 = gpu.wait async
  %s1 = gpu.wait async
  %t0 = gpu.launch async [%s0] blocks(%bx, %by, %bz) in (%gx = %na, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %v = memref.load %a[%bx] : memref<?xi32>
    %w = arith.addi %v, %v : i32
    memref.store %w, %a[%bx] : memref<?xi32>
    gpu.terminator
  }
  %t1 = gpu.launch async [%s1] blocks(%bx, %by, %bz) in (%gx = %nb, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %i = arith.index_cast %bx : index to i32
    %v = memref.load %b[%bx] : memref<?xi32>
    %w = arith.addi %v, %i : i32
    memref.store %w, %b[%bx] : memref<?xi32>
    gpu.terminator
  }
  gpu.wait [%t0, %t1]
  return
}
