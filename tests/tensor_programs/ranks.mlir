func.func @big(%x: tensor<?x?x?x?x?xf32>) -> tensor<?x?x?x?x?xf32> {
  %r = math.exp %x : tensor<?x?x?x?x?xf32>
  return %r : tensor<?x?x?x?x?xf32>
}
func.func @r3(%x: tensor<3x5x7xf32>) -> tensor<3x5x7xf32> {
  %r = math.exp %x : tensor<3x5x7xf32>
  return %r : tensor<3x5x7xf32>
}
func.func @r1(%x: tensor<1000000xf32>) -> tensor<1000000xf32> {
  %r = math.exp %x : tensor<1000000xf32>
  return %r : tensor<1000000xf32>
}
func.func @r0d(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %r = math.exp %x : tensor<0x4xf32>
  return %r : tensor<0x4xf32>
}
