// Tensor cores at kernel level (sm_80 and later): one warp computes a 16 x 8 tile with mma.sync.
// Preconditions: rows of `a` a multiple of 16, rows of `b` of 8, columns of both of 16.
gpu.module @tensor_core {
  // c = a @ b^T for f16 a (m, k) and b (n, k), f32 c (m, n)
  gpu.func @mma_nt(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %c: memref<?x?xf32>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>,
                         aot.grid = [affine_map<(m, k, n, k2, m2, n2) -> (n floordiv 8)>,
                                     affine_map<(m, k, n, k2, m2, n2) -> (m floordiv 16)>],
                         aot.block = [32]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %zero = arith.constant dense<0.0> : vector<2x2xf32>
    %a_empty = arith.constant dense<0.0> : vector<4x2xf16>
    %b_empty = arith.constant dense<0.0> : vector<2x2xf16>
    %k = memref.dim %a, %c1 : memref<?x?xf16>
    %tile_n = gpu.block_id x
    %tile_m = gpu.block_id y
    %lane = gpu.thread_id x
    // Fragment layout of m16n8k16: lane / 4 picks the row, 2 * (lane % 4) the first of two columns.
    %group = arith.divui %lane, %c4 : index
    %member = arith.remui %lane, %c4 : index
    %pair = arith.muli %member, %c2 : index
    %m0 = arith.muli %tile_m, %c16 : index
    %n0 = arith.muli %tile_n, %c8 : index
    %row = arith.addi %m0, %group : index
    %row8 = arith.addi %row, %c8 : index
    %b_row = arith.addi %n0, %group : index
    %acc = scf.for %k0 = %c0 to %k step %c16 iter_args(%sum = %zero) -> vector<2x2xf32> {
      %col = arith.addi %k0, %pair : index
      %col8 = arith.addi %col, %c8 : index
      %a0 = vector.load %a[%row, %col] : memref<?x?xf16>, vector<2xf16>
      %a1 = vector.load %a[%row8, %col] : memref<?x?xf16>, vector<2xf16>
      %a2 = vector.load %a[%row, %col8] : memref<?x?xf16>, vector<2xf16>
      %a3 = vector.load %a[%row8, %col8] : memref<?x?xf16>, vector<2xf16>
      %f0 = vector.insert %a0, %a_empty[0] : vector<2xf16> into vector<4x2xf16>
      %f1 = vector.insert %a1, %f0[1] : vector<2xf16> into vector<4x2xf16>
      %f2 = vector.insert %a2, %f1[2] : vector<2xf16> into vector<4x2xf16>
      %fa = vector.insert %a3, %f2[3] : vector<2xf16> into vector<4x2xf16>
      %b0 = vector.load %b[%b_row, %col] : memref<?x?xf16>, vector<2xf16>
      %b1 = vector.load %b[%b_row, %col8] : memref<?x?xf16>, vector<2xf16>
      %g0 = vector.insert %b0, %b_empty[0] : vector<2xf16> into vector<2x2xf16>
      %fb = vector.insert %b1, %g0[1] : vector<2xf16> into vector<2x2xf16>
      %next = nvgpu.mma.sync(%fa, %fb, %sum) {mmaShape = [16, 8, 16]}
          : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      scf.yield %next : vector<2x2xf32>
    }
    %out_col = arith.addi %n0, %pair : index
    %out0 = vector.extract %acc[0] : vector<2xf32> from vector<2x2xf32>
    %out1 = vector.extract %acc[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %out0, %c[%row, %out_col] : memref<?x?xf32>, vector<2xf32>
    vector.store %out1, %c[%row8, %out_col] : memref<?x?xf32>, vector<2xf32>
    gpu.return
  }
}
