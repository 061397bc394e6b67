// Functions for frameworks that trace programs: one for each way that a result comes about.

func.func @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func @scaled_into(%x: tensor<?xf32>, %s: f32, %out: tensor<?xf32>) -> tensor<?xf32> {
  %y = linalg.map ins(%x : tensor<?xf32>) outs(%out : tensor<?xf32>)
      (%v: f32, %old: f32) {
        %r = arith.mulf %v, %s : f32
        linalg.yield %r : f32
      }
  return %y : tensor<?xf32>
}
func.func @iota(%n: index) -> tensor<?xi64> {
  %y = tensor.generate %n {
  ^bb0(%i: index):
    %v = arith.index_cast %i : index to i64
    tensor.yield %v : i64
  } : tensor<?xi64>
  return %y : tensor<?xi64>
}
func.func @two(%x: tensor<?xf32>) -> (tensor<?xf32>, index) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %y = arith.addf %x, %x : tensor<?xf32>
  return %y, %n : tensor<?xf32>, index
}
func.func @counted(%x: tensor<?xi64>) -> tensor<?xi64> {
  %c0 = arith.constant 0 : index
  %n = tensor.extract %x[%c0] : tensor<?xi64>
  %m = arith.index_cast %n : i64 to index
  %y = tensor.generate %m {
  ^bb0(%i: index):
    %v = arith.index_cast %i : index to i64
    tensor.yield %v : i64
  } : tensor<?xi64>
  return %y : tensor<?xi64>
}
func.func @incremented(%x: memref<?xf32>) -> memref<?xf32> {
  %one = arith.constant 1.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : memref<?xf32>) {
  ^bb0(%v: f32):
    %r = arith.addf %v, %one : f32
    linalg.yield %r : f32
  }
  return %x : memref<?xf32>
}

// Extents that are computed from those of an argument.
func.func @framed(%x: tensor<?x?xf32>, %border: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %both = arith.muli %border, %c2 : index
  %rows = arith.addi %m, %both : index
  %columns = arith.ceildivui %n, %c2 : index
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %y = linalg.fill ins(%one : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
