func.func @f(%x: tensor<?x4xf16>, %y: tensor<?x4xf16>, %z: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c = linalg.add ins(%z, %z : tensor<?x4xf32>, tensor<?x4xf32>) outs(%z : tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = linalg.add
      ins(%x, %y : tensor<?x4xf16>, tensor<?x4xf16>)
      outs(%c : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
