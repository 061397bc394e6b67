// Element types that not every framework has.

func.func @twice_bf16(%x: tensor<?xbf16>) -> tensor<?xbf16> {
  %y = arith.addf %x, %x : tensor<?xbf16>
  return %y : tensor<?xbf16>
}

func.func @widened(%x: tensor<?xf8E4M3FN>) -> tensor<?xf32> {
  %y = arith.extf %x : tensor<?xf8E4M3FN> to tensor<?xf32>
  return %y : tensor<?xf32>
}

func.func @narrowed(%x: tensor<?xf32>) -> tensor<?xf8E5M2> {
  %y = arith.truncf %x : tensor<?xf32> to tensor<?xf8E5M2>
  return %y : tensor<?xf8E5M2>
}

func.func @differs(%a: tensor<?xi1>, %b: tensor<?xi1>) -> tensor<?xi1> {
  %y = arith.xori %a, %b : tensor<?xi1>
  return %y : tensor<?xi1>
}
