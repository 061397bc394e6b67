// i1 in and out, as results of reductions, in constants, as scalars; i4 inside.
#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>

func.func @all(%m: tensor<?xi1>) -> tensor<i1> {
  %true = arith.constant true
  %e = tensor.empty() : tensor<i1>
  %i = linalg.fill ins(%true : i1) outs(%e : tensor<i1>) -> tensor<i1>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%m : tensor<?xi1>) outs(%i : tensor<i1>) {
  ^bb0(%a: i1, %acc: i1):
    %s = arith.andi %a, %acc : i1
    linalg.yield %s : i1
  } -> tensor<i1>
  return %r : tensor<i1>
}

func.func @differs(%a: tensor<?xi1>, %b: tensor<?xi1>) -> tensor<?xi1> {
  %r = arith.xori %a, %b : tensor<?xi1>
  return %r : tensor<?xi1>
}

func.func @alternating(%n: index) -> tensor<?xi1> {
  %c2 = arith.constant 2 : index
  %c0 = arith.constant 0 : index
  %r = tensor.generate %n {
  ^bb0(%i: index):
    %m = arith.remui %i, %c2 : index
    %even = arith.cmpi eq, %m, %c0 : index
    tensor.yield %even : i1
  } : tensor<?xi1>
  return %r : tensor<?xi1>
}

func.func @pattern() -> tensor<5xi1> {
  %c = arith.constant dense<[true, false, true, true, false]> : tensor<5xi1>
  return %c : tensor<5xi1>
}

// Scalars: not a, and whether an element of m is true.
func.func @scalars(%a: i1, %m: tensor<?xi1>, %k: index) -> (i1, i1) {
  %true = arith.constant true
  %n = arith.xori %a, %true : i1
  %v = tensor.extract %m[%k] : tensor<?xi1>
  return %n, %v : i1, i1
}

// The low four bits of each element, as a signed number: an array of i4 in between.
func.func @low_nibble(%x: tensor<?xi8>) -> tensor<?xi8> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi8>
  %e4 = tensor.empty(%n) : tensor<?xi4>
  %narrow = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xi8>) outs(%e4 : tensor<?xi4>) {
  ^bb0(%v: i8, %o: i4):
    %t = arith.trunci %v : i8 to i4
    linalg.yield %t : i4
  } -> tensor<?xi4>
  // Reversed reading keeps the two loops apart, so that the i4 array really exists.
  %e = tensor.empty(%n) : tensor<?xi8>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<?xi8>) {
  ^bb0(%o: i8):
    %i = linalg.index 0 : index
    %c1 = arith.constant 1 : index
    %last = arith.subi %n, %c1 : index
    %mirror = arith.subi %last, %i : index
    %v = tensor.extract %narrow[%mirror] : tensor<?xi4>
    %w = arith.extsi %v : i4 to i8
    linalg.yield %w : i8
  } -> tensor<?xi8>
  return %r : tensor<?xi8>
}
