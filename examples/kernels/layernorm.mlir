// Layer normalisation by rows: two reductions and one pointwise op, fused as far as they go.
#row_col = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

// (x - mean) / sqrt(var + eps) * gamma + beta in each row
func.func @layernorm(%x: tensor<?x?xf32>, %gamma: tensor<?xf32>, %beta: tensor<?xf32>, %eps: f32) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %n_int = arith.index_cast %n : index to i64
  %count = arith.sitofp %n_int : i64 to f32
  %row_empty = tensor.empty(%m) : tensor<?xf32>
  %row_zero = linalg.fill ins(%zero : f32) outs(%row_empty : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#row_col, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%row_zero : tensor<?xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.addf %v, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#row_col, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %sum : tensor<?x?xf32>, tensor<?xf32>) outs(%row_zero : tensor<?xf32>) {
  ^bb0(%v: f32, %total: f32, %acc: f32):
    %mean = arith.divf %total, %count : f32
    %d = arith.subf %v, %mean : f32
    %q = arith.mulf %d, %d : f32
    %s = arith.addf %q, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#row_col, #row, #row, #col, #col, #row_col], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %squares, %gamma, %beta : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%empty : tensor<?x?xf32>) {
  ^bb0(%v: f32, %total: f32, %square_total: f32, %g: f32, %b: f32, %o: f32):
    %mean = arith.divf %total, %count : f32
    %d = arith.subf %v, %mean : f32
    %var = arith.divf %square_total, %count : f32
    %guarded = arith.addf %var, %eps : f32
    %inv = math.rsqrt %guarded : f32
    %unit = arith.mulf %d, %inv : f32
    %scaled = arith.mulf %unit, %g : f32
    %shifted = arith.addf %scaled, %b : f32
    linalg.yield %shifted : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
