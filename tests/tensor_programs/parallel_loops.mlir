func.func @par(%a: memref<?x?x?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  scf.parallel (%i, %j, %k, %l) = (%c1, %c0, %c0, %c2) to (%n, %n, %n, %n) step (%c2, %c1, %c1, %c2) {
    memref.store %one, %a[%i, %j, %k, %l] : memref<?x?x?x?xf32>
    scf.reduce
  }
  return
}
func.func @red(%a: memref<?xf32>, %o: memref<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %n = memref.dim %a, %c0 : memref<?xf32>
  %r = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%z) -> f32 {
    %x = memref.load %a[%i] : memref<?xf32>
    scf.reduce(%x : f32) { ^bb0(%p: f32, %q: f32): %s = arith.addf %p, %q : f32 scf.reduce.return %s : f32 }
  }
  memref.store %r, %o[] : memref<f32>
  return
}
func.func @forall(%x: tensor<64x64xf32>, %o: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = scf.forall (%i, %j) = (0, 0) to (64, 64) step (16, 16) shared_outs(%s = %o) -> (tensor<64x64xf32>) {
    %a = tensor.extract_slice %x[%i, %j] [16, 16] [1, 1] : tensor<64x64xf32> to tensor<16x16xf32>
    %e = tensor.empty() : tensor<16x16xf32>
    %b = linalg.exp ins(%a : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
    %c = linalg.square ins(%b : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
    scf.forall.in_parallel { tensor.parallel_insert_slice %c into %s[%i, %j] [16, 16] [1, 1] : tensor<16x16xf32> into tensor<64x64xf32> }
  }
  return %r : tensor<64x64xf32>
}
func.func @forall_tmp(%x: tensor<64x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %r = scf.forall (%i) = (0) to (64) step (16) shared_outs(%s = %o) -> (tensor<64xf32>) {
    %a = tensor.extract_slice %x[%i, 0] [16, 64] [1, 1] : tensor<64x64xf32> to tensor<16x64xf32>
    %e = tensor.empty() : tensor<16x64xf32>
    %b = linalg.softmax dimension(1) ins(%a : tensor<16x64xf32>) outs(%e : tensor<16x64xf32>) -> tensor<16x64xf32>
    %e1 = tensor.empty() : tensor<16xf32>
    %f = linalg.fill ins(%z : f32) outs(%e1 : tensor<16xf32>) -> tensor<16xf32>
    %c = linalg.reduce { arith.addf } ins(%b : tensor<16x64xf32>) outs(%f : tensor<16xf32>) dimensions = [1]
    scf.forall.in_parallel { tensor.parallel_insert_slice %c into %s[%i] [16] [1] : tensor<16xf32> into tensor<64xf32> }
  }
  return %r : tensor<64xf32>
}
func.func @scffor(%a: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %n = memref.dim %a, %c0 : memref<?xf32>
  scf.for %i = %c0 to %n step %c1 {
    %x = memref.load %a[%i] : memref<?xf32>
    %y = arith.addf %x, %one : f32
    memref.store %y, %a[%i] : memref<?xf32>
  }
  return
}
