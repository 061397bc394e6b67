func.func private @no_such_function(index) -> index
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = call @no_such_function(%n) : (index) -> index
  %y = tensor.empty(%m) : tensor<?xf32>
  %v = arith.constant 1.0 : f32
  %z = linalg.fill ins(%v : f32) outs(%y : tensor<?xf32>) -> tensor<?xf32>
  return %z : tensor<?xf32>
}
