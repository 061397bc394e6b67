func.func @v(%a: memref<128xf32>, %b: memref<128xf32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c128 = arith.constant 128 : index
  scf.for %i = %c0 to %c128 step %c8 {
    %x = vector.load %a[%i] : memref<128xf32>, vector<8xf32>
    %y = arith.addf %x, %x : vector<8xf32>
    vector.store %y, %b[%i] : memref<128xf32>, vector<8xf32>
  }
  return
}
func.func @vt(%a: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %p = arith.constant 0.0 : f32
  %x = vector.transfer_read %a[%c0], %p {in_bounds = [true]} : tensor<8xf32>, vector<8xf32>
  %y = arith.mulf %x, %x : vector<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %r = vector.transfer_write %y, %e[%c0] {in_bounds = [true]} : vector<8xf32>, tensor<8xf32>
  return %r : tensor<8xf32>
}
