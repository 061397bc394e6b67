// several functions, globals, assertion in a kernel, dense_resource, many results
func.func @kernel_assert(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf32>
    %ok = arith.cmpf oge, %v, %z : f32
    cf.assert %ok, "negative"
    scf.reduce
  }
  return
}
func.func @five(%x: tensor<4xf32>) -> (tensor<4xf32>, f32, tensor<4xf32>, index, tensor<f32>) {
  %c0 = arith.constant 0 : index
  %e = math.exp %x : tensor<4xf32>
  %s = math.sin %x : tensor<4xf32>
  %v = tensor.extract %x[%c0] : tensor<4xf32>
  %z = tensor.from_elements %v : tensor<f32>
  %n = tensor.dim %x, %c0 : tensor<4xf32>
  return %e, %v, %s, %n, %z : tensor<4xf32>, f32, tensor<4xf32>, index, tensor<f32>
}
func.func @nested(%x: tensor<4x4xf32>, %n: index, %c: i1) -> tensor<4x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> tensor<4x4xf32> {
    %q = scf.if %c -> tensor<4x4xf32> {
      %t = scf.for %j = %c0 to %i step %c1 iter_args(%z = %y) -> tensor<4x4xf32> {
        %u = arith.addf %z, %x : tensor<4x4xf32>
        scf.yield %u : tensor<4x4xf32>
      }
      scf.yield %t : tensor<4x4xf32>
    } else {
      %u = arith.subf %y, %x : tensor<4x4xf32>
      scf.yield %u : tensor<4x4xf32>
    }
    scf.yield %q : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}
func.func @swaploop(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (tensor<4xf32>, tensor<4xf32>) {
    %z = arith.addf %x, %y : tensor<4xf32>
    scf.yield %y, %z : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}
func.func @seldev(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = tensor.extract %x[%c0] : tensor<4xf32>
  %b = tensor.extract %y[%c0] : tensor<4xf32>
  %g = arith.cmpf ogt, %a, %b : f32
  %r = arith.select %g, %x, %y : tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @consts(%i: index) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<2xi1>) {
  %c = arith.constant dense<[[1.0,2.0,3.0],[4.0,5.0,6.0]]> : tensor<2x3xf32>
  %r = tensor.extract_slice %c[%i, 0] [1, 3] [1, 1] : tensor<2x3xf32> to tensor<3xf32>
  %b = arith.constant dense<true> : tensor<2xi1>
  return %c, %r, %b : tensor<2x3xf32>, tensor<3xf32>, tensor<2xi1>
}
func.func @res() -> tensor<4xf32> {
  %c = arith.constant dense_resource<blob> : tensor<4xf32>
  %e = math.exp %c : tensor<4xf32>
  return %e : tensor<4xf32>
}
{-# dialect_resources: { builtin: { blob: "0x040000000000803f000000400000404000008040" } } #-}
