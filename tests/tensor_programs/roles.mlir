func.func @reduce(%x: tensor<16x32x64xf32>, %i: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %r = linalg.reduce { arith.addf } ins(%x : tensor<16x32x64xf32>) outs(%i : tensor<16x64xf32>) dimensions = [1]
  return %r : tensor<16x64xf32>
}
func.func @bcast(%x: tensor<16xf32>) -> tensor<16x64xf32> {
  %e = tensor.empty() : tensor<16x64xf32>
  %r = linalg.broadcast ins(%x : tensor<16xf32>) outs(%e : tensor<16x64xf32>) dimensions = [1]
  return %r : tensor<16x64xf32>
}
func.func @transpose(%x: tensor<?x?xf32>, %o: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.transpose ins(%x : tensor<?x?xf32>) outs(%o : tensor<?x?xf32>) permutation = [1, 0]
  return %r : tensor<?x?xf32>
}
func.func @map(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.map { arith.addf } ins(%x, %y : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>)
  return %r : tensor<64xf32>
}
func.func @arith(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a = arith.addf %x, %y : tensor<?xf32>
  %b = math.exp %a : tensor<?xf32>
  %c = arith.mulf %b, %x : tensor<?xf32>
  return %c : tensor<?xf32>
}
func.func @exp_self(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.exp ins(%x : tensor<?xf32>) outs(%x : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @fill(%o: tensor<?xf32>, %v: f32) -> tensor<?xf32> {
  %0 = linalg.fill ins(%v : f32) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @copy(%x: tensor<?xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.copy ins(%x : tensor<?xf32>) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @two(%x: tensor<?xf32>, %o: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c = arith.constant 3.0 : f32
  %a = linalg.fill ins(%c : f32) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.exp ins(%x : tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
  return %a, %b : tensor<?xf32>, tensor<?xf32>
}
func.func @marked(%x: tensor<4xf32> {bufferization.writable = true}, %v: f32) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %r = tensor.insert %v into %x[%c0] : tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @none(%x: tensor<4xf32>) { return }
func.func @nothing() { return }
func.func @num(%a: i32, %b: f64) -> (i32, f64, i1) {
  %c = arith.addi %a, %a : i32
  %d = arith.mulf %b, %b : f64
  %t = arith.constant true
  return %c, %d, %t : i32, f64, i1
}
