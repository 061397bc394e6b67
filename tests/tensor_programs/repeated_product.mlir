func.func @loop(%x: tensor<8x8xf32>, %n: index) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> tensor<8x8xf32> {
    %e = tensor.empty() : tensor<8x8xf32>
    %z0 = arith.constant 0.0 : f32
    %f = linalg.fill ins(%z0 : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = linalg.matmul ins(%y, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %z : tensor<8x8xf32>
  }
  return %r : tensor<8x8xf32>
}
