// GELU, exact (erf, f32) and with the tanh approximation (f16); the math functions come from libdevice.
#id = affine_map<(i) -> (i)>

// x * (1 + erf(x / sqrt(2))) / 2
func.func @gelu(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %inv_sqrt2 = arith.constant 0.707106769 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%empty : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.mulf %v, %inv_sqrt2 : f32
    %e = math.erf %t : f32
    %p = arith.addf %e, %one : f32
    %h = arith.mulf %v, %half : f32
    %g = arith.mulf %h, %p : f32
    linalg.yield %g : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2, computed in f32
func.func @gelu_tanh(%x: tensor<?xf16>) -> tensor<?xf16> {
  %c0 = arith.constant 0 : index
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %cubic = arith.constant 0.044715 : f32
  %slope = arith.constant 0.797884583 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf16>
  %empty = tensor.empty(%n) : tensor<?xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf16>) outs(%empty : tensor<?xf16>) {
  ^bb0(%narrow: f16, %o: f16):
    %v = arith.extf %narrow : f16 to f32
    %v2 = arith.mulf %v, %v : f32
    %v3 = arith.mulf %v2, %v : f32
    %bend = arith.mulf %v3, %cubic : f32
    %sum = arith.addf %v, %bend : f32
    %arg = arith.mulf %sum, %slope : f32
    %t = math.tanh %arg : f32
    %p = arith.addf %t, %one : f32
    %h = arith.mulf %v, %half : f32
    %g = arith.mulf %h, %p : f32
    %out = arith.truncf %g : f32 to f16
    linalg.yield %out : f16
  } -> tensor<?xf16>
  return %r : tensor<?xf16>
}
