func.func @f(%x: memref<8xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %p = arith.constant 0.0 : f32
  %m = vector.create_mask %n : vector<8xi1>
  %v = vector.mask %m { vector.transfer_read %x[%c0], %p {in_bounds=[true]} : memref<8xf32>, vector<8xf32> } : vector<8xi1> -> vector<8xf32>
  vector.transfer_write %v, %x[%c0] {in_bounds=[true]} : vector<8xf32>, memref<8xf32>
  return
}
