func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %n = arith.constant -3 : index
  %e = tensor.empty(%n, %n) : tensor<?x?xf32>
  %r = linalg.exp ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
