// GELU (tanh form) and RMS normalisation in f32: numpy's f16 is no match to compare with.
#id = affine_map<(i) -> (i)>
#row_col = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
func.func @gelu(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %cubic = arith.constant 0.044715 : f32
  %slope = arith.constant 0.797884583 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%empty : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %v2 = arith.mulf %v, %v : f32
    %v3 = arith.mulf %v2, %v : f32
    %bend = arith.mulf %v3, %cubic : f32
    %sum = arith.addf %v, %bend : f32
    %arg = arith.mulf %sum, %slope : f32
    %t = math.tanh %arg : f32
    %p = arith.addf %t, %one : f32
    %h = arith.mulf %v, %half : f32
    %g = arith.mulf %h, %p : f32
    linalg.yield %g : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// x / sqrt(mean(x * x) + 1e-5) * weight in each row
func.func @rmsnorm(%x: tensor<?x?xf32>, %weight: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 1.0e-05 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %n_int = arith.index_cast %n : index to i64
  %count = arith.sitofp %n_int : i64 to f32
  %row_empty = tensor.empty(%m) : tensor<?xf32>
  %row_zero = linalg.fill ins(%zero : f32) outs(%row_empty : tensor<?xf32>) -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#row_col, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32>) outs(%row_zero : tensor<?xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %q = arith.mulf %v, %v : f32
    %s = arith.addf %q, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#row_col, #row, #col, #row_col], iterator_types = ["parallel", "parallel"]}
      ins(%x, %squares, %weight : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%empty : tensor<?x?xf32>) {
  ^bb0(%v: f32, %total: f32, %w: f32, %o: f32):
    %mean = arith.divf %total, %count : f32
    %guarded = arith.addf %mean, %eps : f32
    %inv = math.rsqrt %guarded : f32
    %unit = arith.mulf %v, %inv : f32
    %scaled = arith.mulf %unit, %w : f32
    linalg.yield %scaled : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
