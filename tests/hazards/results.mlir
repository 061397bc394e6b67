// Results whose extents the caller cannot know: they depend on a branch, on a loop, on device data or on an argument.
#id = affine_map<(i) -> (i)>

// The first third of x when `cut`, else x itself, as a new array.
func.func @third(%x: tensor<?xf32>, %cut: i1) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.if %cut -> tensor<?xf32> {
    %k = arith.divui %n, %c3 : index
    %s = tensor.extract_slice %x[0] [%k] [1] : tensor<?xf32> to tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// x with a one appended `count` times: the array grows by one element in each step.
func.func @append_ones(%x: tensor<?xf32>, %count: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%y = %x) -> tensor<?xf32> {
    %n = tensor.dim %y, %c0 : tensor<?xf32>
    %longer = arith.addi %n, %c1 : index
    %e = tensor.empty(%longer) : tensor<?xf32>
    %f = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %a = tensor.insert_slice %y into %f[0] [%n] [1] : tensor<?xf32> into tensor<?xf32>
    scf.yield %a : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// One value returned twice: two arrays, not one memory under two owners.
func.func @negated_twice(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.negf ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r, %r : tensor<?xf32>, tensor<?xf32>
}

// sqrt of the first count[] elements: the extent lies in device memory.
func.func @sqrt_first(%x: tensor<?xf32>, %count: tensor<i64>) -> tensor<?xf32> {
  %wide = tensor.extract %count[] : tensor<i64>
  %n = arith.index_cast %wide : i64 to index
  %s = tensor.extract_slice %x[0] [%n] [1] : tensor<?xf32> to tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.sqrt ins(%s : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// An array of n zeros: n may be too large for any device, or negative.
func.func @zeros(%n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// x framed by `edge` rows above and below and one column left and right, filled with -1.
func.func @frame(%x: tensor<?x?xf32>, %edge: index) -> tensor<?x?xf32> {
  %fill = arith.constant -1.0 : f32
  %r = tensor.pad %x low[%edge, 1] high[%edge, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %fill : f32
  } : tensor<?x?xf32> to tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// A scalar, a rank-0 array and a vector from one call.
func.func @three_kinds(%x: tensor<?xf32>) -> (index, tensor<f32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e0 = tensor.empty() : tensor<f32>
  %i0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [#id, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<?xf32>) outs(%i0 : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.addf %v, %acc : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %abs = linalg.abs ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %n, %sum, %abs : index, tensor<f32>, tensor<?xf32>
}
