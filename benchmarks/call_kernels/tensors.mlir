// Host functions with 1, 2, 4 and 8 arrays of any length; the last array is the destination, which a call writes and returns.

func.func @arrays1(%out: tensor<?xf32>) -> tensor<?xf32> {
  %one = arith.constant 1.0 : f32
  %y = linalg.fill ins(%one : f32) outs(%out : tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// x * x
func.func @arrays2(%x0: tensor<?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %y = linalg.map ins(%x0 : tensor<?xf32>) outs(%out : tensor<?xf32>)
      (%v0: f32, %old: f32) {
        %a0 = arith.mulf %v0, %v0 : f32
        linalg.yield %a0 : f32
      }
  return %y : tensor<?xf32>
}

// The sum of the others.
func.func @arrays4(%x0: tensor<?xf32>, %x1: tensor<?xf32>, %x2: tensor<?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %y = linalg.map ins(%x0, %x1, %x2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%out : tensor<?xf32>)
      (%v0: f32, %v1: f32, %v2: f32, %old: f32) {
        %a1 = arith.addf %v0, %v1 : f32
        %a2 = arith.addf %a1, %v2 : f32
        linalg.yield %a2 : f32
      }
  return %y : tensor<?xf32>
}

func.func @arrays8(%x0: tensor<?xf32>, %x1: tensor<?xf32>, %x2: tensor<?xf32>, %x3: tensor<?xf32>, %x4: tensor<?xf32>, %x5: tensor<?xf32>, %x6: tensor<?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %y = linalg.map ins(%x0, %x1, %x2, %x3, %x4, %x5, %x6 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%out : tensor<?xf32>)
      (%v0: f32, %v1: f32, %v2: f32, %v3: f32, %v4: f32, %v5: f32, %v6: f32, %old: f32) {
        %a1 = arith.addf %v0, %v1 : f32
        %a2 = arith.addf %a1, %v2 : f32
        %a3 = arith.addf %a2, %v3 : f32
        %a4 = arith.addf %a3, %v4 : f32
        %a5 = arith.addf %a4, %v5 : f32
        %a6 = arith.addf %a5, %v6 : f32
        linalg.yield %a6 : f32
      }
  return %y : tensor<?xf32>
}

// s0 times the sum of the others, plus s1.
func.func @arrays4_scalars2(%x0: tensor<?xf32>, %x1: tensor<?xf32>, %x2: tensor<?xf32>, %out: tensor<?xf32>, %s0: f32, %s1: f32) -> tensor<?xf32> {
  %y = linalg.map ins(%x0, %x1, %x2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%out : tensor<?xf32>)
      (%v0: f32, %v1: f32, %v2: f32, %old: f32) {
        %a1 = arith.addf %v0, %v1 : f32
        %a2 = arith.addf %a1, %v2 : f32
        %m = arith.mulf %a2, %s0 : f32
        %r = arith.addf %m, %s1 : f32
        linalg.yield %r : f32
      }
  return %y : tensor<?xf32>
}

// x * x as a new array.
func.func @made(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.map ins(%x : tensor<?xf32>) outs(%empty : tensor<?xf32>)
      (%v0: f32, %old: f32) {
        %a0 = arith.mulf %v0, %v0 : f32
        linalg.yield %a0 : f32
      }
  return %y : tensor<?xf32>
}
