// The 8-bit floats without a negative zero.
#id = affine_map<(i) -> (i)>

func.func @from_e4m3fnuz(%x: tensor<?xf8E4M3FNUZ>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf8E4M3FNUZ>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf8E4M3FNUZ>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f8E4M3FNUZ, %o: f32):
    %w = arith.extf %v : f8E4M3FNUZ to f32
    linalg.yield %w : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @to_e4m3fnuz(%x: tensor<?xf32>) -> tensor<?xf8E4M3FNUZ> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf8E4M3FNUZ>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf8E4M3FNUZ>) {
  ^bb0(%v: f32, %o: f8E4M3FNUZ):
    %w = arith.truncf %v : f32 to f8E4M3FNUZ
    linalg.yield %w : f8E4M3FNUZ
  } -> tensor<?xf8E4M3FNUZ>
  return %r : tensor<?xf8E4M3FNUZ>
}

func.func @from_e5m2fnuz(%x: tensor<?xf8E5M2FNUZ>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf8E5M2FNUZ>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf8E5M2FNUZ>) outs(%e : tensor<?xf32>) {
  ^bb0(%v: f8E5M2FNUZ, %o: f32):
    %w = arith.extf %v : f8E5M2FNUZ to f32
    linalg.yield %w : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @to_e5m2fnuz(%x: tensor<?xf32>) -> tensor<?xf8E5M2FNUZ> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf8E5M2FNUZ>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf8E5M2FNUZ>) {
  ^bb0(%v: f32, %o: f8E5M2FNUZ):
    %w = arith.truncf %v : f32 to f8E5M2FNUZ
    linalg.yield %w : f8E5M2FNUZ
  } -> tensor<?xf8E5M2FNUZ>
  return %r : tensor<?xf8E5M2FNUZ>
}
