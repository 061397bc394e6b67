func.func @f(%x: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %end = arith.constant 8 : index
  scf.for %i = %zero to %end step %zero {
    %v = memref.load %x[%i] : memref<8xf32>
    memref.store %v, %x[%zero] : memref<8xf32>
  }
  return
}
