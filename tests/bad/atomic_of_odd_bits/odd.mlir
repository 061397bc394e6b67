func.func @f(%x: memref<4xi24>, %v: i24) {
  %c0 = arith.constant 0 : index
  %old = memref.generic_atomic_rmw %x[%c0] : memref<4xi24> {
  ^bb0(%now: i24):
    %new = arith.addi %now, %v : i24
    memref.atomic_yield %new : i24
  }
  return
}
