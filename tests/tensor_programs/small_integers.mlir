#id = affine_map<(i) -> (i)>
func.func @notall(%x: tensor<?xi1>) -> tensor<?xi1> {
  %t = arith.constant true
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi1>
  %e = tensor.empty(%n) : tensor<?xi1>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xi1>) outs(%e : tensor<?xi1>) {
  ^bb0(%a: i1, %o: i1): %s = arith.xori %a, %t : i1 linalg.yield %s : i1 } -> tensor<?xi1>
  return %r : tensor<?xi1>
}
func.func @const() -> tensor<4xi1> { %c = arith.constant dense<[true, false, true, true]> : tensor<4xi1> return %c : tensor<4xi1> }
func.func @rank0(%a: tensor<i1>, %b: tensor<i1>) -> tensor<i1> { %r = arith.andi %a, %b : tensor<i1> return %r : tensor<i1> }
func.func @ext(%a: tensor<4xi1>, %i: index) -> i1 { %r = tensor.extract %a[%i] : tensor<4xi1> return %r : i1 }
func.func @i4(%a: tensor<?xi4>) -> tensor<?xi4> { %r = arith.addi %a, %a : tensor<?xi4> return %r : tensor<?xi4> }
func.func @if(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %f = tensor.extract %c[] : tensor<i1>
  %r = scf.if %f -> tensor<4xf32> { %a = math.exp %x : tensor<4xf32> scf.yield %a : tensor<4xf32> } else { scf.yield %x : tensor<4xf32> }
  return %r : tensor<4xf32>
}
