// Host control flow on values that lie in device memory: the call waits exactly where it reads them.
#id = affine_map<(i) -> (i)>
#none = affine_map<() -> ()>

// x doubled times[] times.
func.func @doubled(%x: tensor<?xf32>, %times: tensor<i64>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %wide = tensor.extract %times[] : tensor<i64>
  %k = arith.index_cast %wide : i64 to index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.for %i = %c0 to %k step %c1 iter_args(%y = %x) -> tensor<?xf32> {
    %e = tensor.empty(%n) : tensor<?xf32>
    %z = linalg.add ins(%y, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// log(x) when flag[] is true, else |x|.
func.func @log_or_abs(%x: tensor<?xf32>, %flag: tensor<i1>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %f = tensor.extract %flag[] : tensor<i1>
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = scf.if %f -> tensor<?xf32> {
    %a = linalg.log ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %a : tensor<?xf32>
  } else {
    %a = linalg.abs ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %a : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// Euclid's algorithm on rank-0 arrays that a loop carries; also the number of steps.
func.func @gcd(%a: tensor<i64>, %b: tensor<i64>) -> (tensor<i64>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %r:3 = scf.while (%x = %a, %y = %b, %k = %c0) : (tensor<i64>, tensor<i64>, index) -> (tensor<i64>, tensor<i64>, index) {
    %v = tensor.extract %y[] : tensor<i64>
    %more = arith.cmpi ne, %v, %zero : i64
    scf.condition(%more) %x, %y, %k : tensor<i64>, tensor<i64>, index
  } do {
  ^bb0(%x: tensor<i64>, %y: tensor<i64>, %k: index):
    %e = tensor.empty() : tensor<i64>
    %rest = linalg.generic {indexing_maps = [#none, #none, #none], iterator_types = []}
        ins(%x, %y : tensor<i64>, tensor<i64>) outs(%e : tensor<i64>) {
    ^bb0(%p: i64, %q: i64, %o: i64):
      %m = arith.remui %p, %q : i64
      linalg.yield %m : i64
    } -> tensor<i64>
    %next = arith.addi %k, %c1 : index
    scf.yield %y, %rest, %next : tensor<i64>, tensor<i64>, index
  }
  return %r#0, %r#2 : tensor<i64>, index
}

// Scalars put into an array, and one of its elements read back by the host.
func.func @line(%a: f32, %b: f32, %k: index) -> (tensor<4xf32>, f32) {
  %d = arith.subf %b, %a : f32
  %c = arith.addf %b, %d : f32
  %e = arith.addf %c, %d : f32
  %t = tensor.from_elements %a, %b, %c, %e : tensor<4xf32>
  %v = tensor.extract %t[%k] : tensor<4xf32>
  return %t, %v : tensor<4xf32>, f32
}

// A constant table indexed by a host number.
func.func @days(%month: index) -> i32 {
  %t = arith.constant dense<[31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]> : tensor<12xi32>
  %v = tensor.extract %t[%month] : tensor<12xi32>
  return %v : i32
}
