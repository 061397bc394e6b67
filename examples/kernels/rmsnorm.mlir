// Root-mean-square normalisation by rows in f16; the sum of squares is kept in f32.
#row_col = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

// x / sqrt(mean(x * x) + eps) * weight in each row
func.func @rmsnorm(%x: tensor<?x?xf16>, %weight: tensor<?xf16>, %eps: f32) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf16>
  %n = tensor.dim %x, %c1 : tensor<?x?xf16>
  %n_int = arith.index_cast %n : index to i64
  %count = arith.sitofp %n_int : i64 to f32
  %row_empty = tensor.empty(%m) : tensor<?xf32>
  %row_zero = linalg.fill ins(%zero : f32) outs(%row_empty : tensor<?xf32>) -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#row_col, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf16>) outs(%row_zero : tensor<?xf32>) {
  ^bb0(%v: f16, %acc: f32):
    %wide = arith.extf %v : f16 to f32
    %q = arith.mulf %wide, %wide : f32
    %s = arith.addf %q, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf16>
  %r = linalg.generic {indexing_maps = [#row_col, #row, #col, #row_col], iterator_types = ["parallel", "parallel"]}
      ins(%x, %squares, %weight : tensor<?x?xf16>, tensor<?xf32>, tensor<?xf16>) outs(%empty : tensor<?x?xf16>) {
  ^bb0(%v: f16, %total: f32, %w: f16, %o: f16):
    %wide = arith.extf %v : f16 to f32
    %wide_weight = arith.extf %w : f16 to f32
    %mean = arith.divf %total, %count : f32
    %guarded = arith.addf %mean, %eps : f32
    %inv = math.rsqrt %guarded : f32
    %unit = arith.mulf %wide, %inv : f32
    %scaled = arith.mulf %unit, %wide_weight : f32
    %narrow = arith.truncf %scaled : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<?x?xf16>
  return %r : tensor<?x?xf16>
}
