// Thread block clusters (sm_90): out[b] = index of block b in its cluster of two.
func.func @rank_in_cluster(%out: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = memref.dim %out, %c0 : memref<?xi32>
  gpu.launch clusters(%cx, %cy, %cz) in (%clx = %c2, %cly = %c1, %clz = %c1)
             blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %r = gpu.cluster_block_id x
    %r32 = arith.index_cast %r : index to i32
    memref.store %r32, %out[%bx] : memref<?xi32>
    gpu.terminator
  }
  return
}
