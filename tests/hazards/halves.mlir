// Sums of f16 and bf16 keep an f32 accumulator: 4096 * 0.001 is 4.096, not the 4.0 where f16 sums stop growing.
#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
func.func @sum_f16(%x: tensor<?xf16>) -> tensor<f16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<f16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<f16>) -> tensor<f16>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<?xf16>) outs(%i : tensor<f16>) {
  ^bb0(%v: f16, %acc: f16):
    %s = arith.addf %v, %acc : f16
    linalg.yield %s : f16
  } -> tensor<f16>
  return %r : tensor<f16>
}
func.func @sum_bf16(%x: tensor<?xbf16>) -> tensor<bf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<bf16>
  %i = linalg.fill ins(%zero : bf16) outs(%e : tensor<bf16>) -> tensor<bf16>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<?xbf16>) outs(%i : tensor<bf16>) {
  ^bb0(%v: bf16, %acc: bf16):
    %s = arith.addf %v, %acc : bf16
    linalg.yield %s : bf16
  } -> tensor<bf16>
  return %r : tensor<bf16>
}
func.func @matmul_f16(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f16
  %m = tensor.dim %a, %c0 : tensor<?x?xf16>
  %n = tensor.dim %b, %c1 : tensor<?x?xf16>
  %e = tensor.empty(%m, %n) : tensor<?x?xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<?x?xf16>) -> tensor<?x?xf16>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf16>, tensor<?x?xf16>) outs(%i : tensor<?x?xf16>) -> tensor<?x?xf16>
  return %r : tensor<?x?xf16>
}
