// Tensor functions named like libm's and libc's.
func.func @tanh(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = math.tanh %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.negf %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @abort(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = math.absf %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @puts(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = func.call @free(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func private @free(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.addf %x, %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
