// Attention written with tensor ops only: scores, softmax and the weighted sum, per batch (batch x heads folded).
#query = affine_map<(b, m, n, k) -> (b, m, k)>
#key = affine_map<(b, m, n, k) -> (b, n, k)>
#score = affine_map<(b, m, n, k) -> (b, m, n)>
#id = affine_map<(b, m, n) -> (b, m, n)>

// softmax(q @ k^T / sqrt(d)) @ v for q, k, v of shape (batch, length, d)
func.func @attention(%q: tensor<?x?x?xf32>, %k: tensor<?x?x?xf32>, %v: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %batch = tensor.dim %q, %c0 : tensor<?x?x?xf32>
  %rows = tensor.dim %q, %c1 : tensor<?x?x?xf32>
  %depth = tensor.dim %q, %c2 : tensor<?x?x?xf32>
  %keys = tensor.dim %k, %c1 : tensor<?x?x?xf32>
  %width = tensor.dim %v, %c2 : tensor<?x?x?xf32>
  %depth_int = arith.index_cast %depth : index to i64
  %depth_float = arith.sitofp %depth_int : i64 to f32
  %scale = math.rsqrt %depth_float : f32

  %score_empty = tensor.empty(%batch, %rows, %keys) : tensor<?x?x?xf32>
  %score_zero = linalg.fill ins(%zero : f32) outs(%score_empty : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %scores = linalg.batch_matmul indexing_maps = [#query, #key, #score]
      ins(%q, %k : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%score_zero : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %scaled = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scores : tensor<?x?x?xf32>) outs(%score_empty : tensor<?x?x?xf32>) {
  ^bb0(%s: f32, %o: f32):
    %t = arith.mulf %s, %scale : f32
    linalg.yield %t : f32
  } -> tensor<?x?x?xf32>
  %weights = linalg.softmax dimension(2) ins(%scaled : tensor<?x?x?xf32>)
      outs(%score_empty : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>

  %out_empty = tensor.empty(%batch, %rows, %width) : tensor<?x?x?xf32>
  %out_zero = linalg.fill ins(%zero : f32) outs(%out_empty : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %r = linalg.batch_matmul ins(%weights, %v : tensor<?x?x?xf32>, tensor<?x?x?xf32>)
      outs(%out_zero : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}
