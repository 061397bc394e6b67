func.func private @sq(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %x, %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @pub(%x: tensor<?xf32>) -> tensor<?xf32> {
  %a = call @sq(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %b = call @sq(%a) : (tensor<?xf32>) -> tensor<?xf32>
  return %b : tensor<?xf32>
}
func.func @both(%x: tensor<?xf32>) -> tensor<?xf32> {
  %b = call @pub(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %b : tensor<?xf32>
}
