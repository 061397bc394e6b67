// 8-bit floats: every code to f32, and rounding into them, bit for bit as PyTorch does it.
#id = affine_map<(i) -> (i)>

func.func @from_e4m3fn(%x: tensor<?xf8E4M3FN>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf8E4M3FN>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf8E4M3FN>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f8E4M3FN, %o: f32):
    %w = arith.extf %v : f8E4M3FN to f32
    linalg.yield %w : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @to_e4m3fn(%x: tensor<?xf32>) -> tensor<?xf8E4M3FN> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf8E4M3FN>) {
  ^bb0(%v: f32, %o: f8E4M3FN):
    %w = arith.truncf %v : f32 to f8E4M3FN
    linalg.yield %w : f8E4M3FN
  } -> tensor<?xf8E4M3FN>
  return %r : tensor<?xf8E4M3FN>
}

func.func @from_e5m2(%x: tensor<?xf8E5M2>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf8E5M2>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf8E5M2>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f8E5M2, %o: f32):
    %w = arith.extf %v : f8E5M2 to f32
    linalg.yield %w : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @to_e5m2(%x: tensor<?xf32>) -> tensor<?xf8E5M2> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf8E5M2>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf8E5M2>) {
  ^bb0(%v: f32, %o: f8E5M2):
    %w = arith.truncf %v : f32 to f8E5M2
    linalg.yield %w : f8E5M2
  } -> tensor<?xf8E5M2>
  return %r : tensor<?xf8E5M2>
}
