// Blocks of small floats with a power of two each, as MX formats have them.
func.func @widen(%x: tensor<?x4xf8E4M3FN>, %s: tensor<?xf8E8M0FNU>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<?x4xf8E4M3FN>, tensor<?xf8E8M0FNU>) outs(%y : tensor<?x4xf32>) {
    ^bb0(%a: f8E4M3FN, %b: f8E8M0FNU, %old: f32):
      %v = arith.scaling_extf %a, %b : f8E4M3FN, f8E8M0FNU to f32
      linalg.yield %v : f32
    } -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
func.func @narrow(%x: tensor<9xf32>, %s: tensor<9xf8E8M0FNU>, %t: tensor<9xf32>) -> (tensor<9xf8E4M3FN>, tensor<9xf8E5M2>) {
  %r = arith.scaling_truncf %x, %s to_nearest_even : tensor<9xf32>, tensor<9xf8E8M0FNU> to tensor<9xf8E4M3FN>
  %q = arith.scaling_truncf %x, %t : tensor<9xf32>, tensor<9xf32> to tensor<9xf8E5M2>
  return %r, %q : tensor<9xf8E4M3FN>, tensor<9xf8E5M2>
}
