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

// A narrow integer that goes in, and comes back as a number and in an array.
func.func @shifted(%x: tensor<?xi32>, %by: i32) -> (tensor<?xi32>, i32) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi32>
  %empty = tensor.empty(%n) : tensor<?xi32>
  %y = linalg.map ins(%x : tensor<?xi32>) outs(%empty : tensor<?xi32>)
      (%v: i32, %old: i32) {
        %r = arith.addi %v, %by : i32
        linalg.yield %r : i32
      }
  return %y, %by : tensor<?xi32>, i32
}
