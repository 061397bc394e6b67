// cf.assert in host code: an error in Python with its text, memory freed, the next call right.

// x / y; refuses arrays of different lengths and, after work has been queued, a sum of y that is zero.
func.func @divided(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = tensor.dim %y, %c0 : tensor<?xf32>
  %same = arith.cmpi eq, %n, %m : index
  cf.assert %same, "x and y must have one length"
  %e = tensor.empty(%n) : tensor<?xf32>
  %q = linalg.div ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %e0 = tensor.empty() : tensor<f32>
  %i0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%y : tensor<?xf32>) outs(%i0 : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.addf %v, %acc : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %total = tensor.extract %sum[] : tensor<f32>
  %nonzero = arith.cmpf une, %total, %zero : f32
  cf.assert %nonzero, "the sum of y is zero"
  return %q : tensor<?xf32>
}

// Every step-th element of x is doubled: a loop of launches.
func.func @doubled(%x: memref<?xf32>, %step: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.for %i = %c0 to %n step %step {
    %one = memref.subview %x[%i] [1] [1] : memref<?xf32> to memref<1xf32, strided<[1], offset: ?>>
    linalg.add ins(%one, %one : memref<1xf32, strided<[1], offset: ?>>, memref<1xf32, strided<[1], offset: ?>>)
      outs(%one : memref<1xf32, strided<[1], offset: ?>>)
  }
  return
}
