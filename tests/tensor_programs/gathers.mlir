func.func @gather(%x: tensor<10x4xf32>, %i: tensor<3x1xindex>) -> tensor<3x1x4xf32> {
  %r = tensor.gather %x[%i] gather_dims([0]) : (tensor<10x4xf32>, tensor<3x1xindex>) -> tensor<3x1x4xf32>
  return %r : tensor<3x1x4xf32>
}
func.func @scatter(%u: tensor<3x1x4xf32>, %x: tensor<10x4xf32>, %i: tensor<3x1xindex>) -> tensor<10x4xf32> {
  %r = tensor.scatter %u into %x[%i] scatter_dims([0]) unique : (tensor<3x1x4xf32>, tensor<10x4xf32>, tensor<3x1xindex>) -> tensor<10x4xf32>
  return %r : tensor<10x4xf32>
}
func.func @s2(%u: tensor<?x4xf32>, %x: tensor<?x4x?xf32>, %i: tensor<?x2xi32>) -> tensor<?x4x?xf32> {
  %r = tensor.scatter %u into %x[%i] scatter_dims([0, 2]) unique : (tensor<?x4xf32>, tensor<?x4x?xf32>, tensor<?x2xi32>) -> tensor<?x4x?xf32>
  return %r : tensor<?x4x?xf32>
}
func.func @g2(%x: tensor<?x4x?xf32>, %i: tensor<?x3x1xi32>) -> tensor<?x3x?x4xf32> {
  %r = tensor.gather %x[%i] gather_dims([2]) unique : (tensor<?x4x?xf32>, tensor<?x3x1xi32>) -> tensor<?x3x?x4xf32>
  return %r : tensor<?x3x?x4xf32>
}
