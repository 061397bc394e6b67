func.func @br(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^a, ^b
^a:
  %e = math.exp %x : tensor<4xf32>
  return %e : tensor<4xf32>
^b:
  return %x : tensor<4xf32>
}
func.func @join(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^a, ^b(%x : tensor<4xf32>)
^a:
  %e = math.exp %x : tensor<4xf32>
  cf.br ^b(%e : tensor<4xf32>)
^b(%r: tensor<4xf32>):
  %s = math.sin %r : tensor<4xf32>
  return %s : tensor<4xf32>
}
