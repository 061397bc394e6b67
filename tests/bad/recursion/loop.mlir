func.func @f(%n: index, %x: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %more = arith.cmpi ne, %n, %c0 : index
  scf.if %more {
    %m = arith.subi %n, %c1 : index
    func.call @f(%m, %x) : (index, memref<4xf32>) -> ()
  }
  return
}
