func.func @concat(%a: tensor<3x4xf32>, %b: tensor<5x4xf32>) -> tensor<8x4xf32> {
  %r = tensor.concat dim(0) %a, %b : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
func.func @concat_dyn(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = tensor.concat dim(1) %a, %b : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @generate(%n: index) -> tensor<?x3xindex> {
  %r = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    %s = arith.addi %i, %j : index
    tensor.yield %s : index
  } : tensor<?x3xindex>
  return %r : tensor<?x3xindex>
}
func.func @pads(%x: tensor<4x5xf32>) -> tensor<7x9xf32> {
  %z = arith.constant 0.0 : f32
  %r = tensor.pad %x low[1, 2] high[2, 2] { ^bb0(%i: index, %j: index): tensor.yield %z : f32 } : tensor<4x5xf32> to tensor<7x9xf32>
  return %r : tensor<7x9xf32>
}
func.func @reshape(%x: tensor<?x?xf32>, %s: tensor<1xindex>) -> tensor<?xf32> {
  %r = tensor.reshape %x(%s) : (tensor<?x?xf32>, tensor<1xindex>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @splat(%v: f32) -> tensor<4x4xf32> {
  %r = tensor.splat %v : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func @expand(%x: tensor<?x6xf32>, %n: index) -> tensor<?x2x3xf32> {
  %r = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 3] : tensor<?x6xf32> into tensor<?x2x3xf32>
  return %r : tensor<?x2x3xf32>
}
func.func @scatterlike(%x: tensor<10xf32>, %idx: tensor<4xi64>, %u: tensor<4xf32>) -> tensor<10xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%y = %x) -> tensor<10xf32> {
    %k = tensor.extract %idx[%i] : tensor<4xi64>
    %kk = arith.index_cast %k : i64 to index
    %v = tensor.extract %u[%i] : tensor<4xf32>
    %z = tensor.insert %v into %y[%kk] : tensor<10xf32>
    scf.yield %z : tensor<10xf32>
  }
  return %r : tensor<10xf32>
}
