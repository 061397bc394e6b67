// Slices that leave out dimensions of size 1, of which MLIR would leave out others once sizes are known.
func.func @column(%x: tensor<?x?x4xf32>, %i: index, %n: index) -> tensor<1x?xf32> {
  %r = tensor.extract_slice %x[0, 0, %i] [1, %n, 1] [1, 1, 1] : tensor<?x?x4xf32> to tensor<1x?xf32>
  return %r : tensor<1x?xf32>
}
func.func @known(%x: tensor<1x4x1x3x4x3xi32>) -> tensor<?x?x1x?x3xi32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %r = tensor.extract_slice %x[0, 1, 0, 0, 0, 0] [%c1, %c3, 1, 1, %c2, 3] [1, 1, 3, 1, 2, 1]
      : tensor<1x4x1x3x4x3xi32> to tensor<?x?x1x?x3xi32>
  return %r : tensor<?x?x1x?x3xi32>
}
// The stride of a dimension of size 1 is the step between no elements.
func.func @strides(%x: tensor<2x2x2x1x2x2xf32>, %y: tensor<1x1x4x1x1x1xf16>) -> (tensor<2x1x?x2x2xf32>, tensor<1x1x1x?xf16>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a = tensor.extract_slice %x[0, 1, 0, 0, 0, 0] [2, 1, 1, %c1, 2, 2] [1, %c2, 2, 1, 1, 1]
      : tensor<2x2x2x1x2x2xf32> to tensor<2x1x?x2x2xf32>
  %s = arith.addf %a, %a : tensor<2x1x?x2x2xf32>
  %b = tensor.extract_slice %y[0, 0, 3, 0, 0, 0] [1, 1, 1, 1, 1, %c1] [1, 1, 3, 1, 1, 3]
      : tensor<1x1x4x1x1x1xf16> to tensor<1x1x1x?xf16>
  return %s, %b : tensor<2x1x?x2x2xf32>, tensor<1x1x1x?xf16>
}
func.func @put(%row: tensor<1x?xf32>, %x: tensor<?x?x4xf32>, %i: index) -> tensor<?x?x4xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %row, %c1 : tensor<1x?xf32>
  %r = tensor.insert_slice %row into %x[0, 0, %i] [1, %n, 1] [1, 1, 1] : tensor<1x?xf32> into tensor<?x?x4xf32>
  return %r : tensor<?x?x4xf32>
}
func.func @put_in_parallel(%x: tensor<4x1x5xf32>, %y: tensor<1x5x4xf32>) -> tensor<1x5x4xf32> {
  %r = scf.forall (%i) in (4) shared_outs(%o = %y) -> tensor<1x5x4xf32> {
    %row = tensor.extract_slice %x[%i, 0, 0] [1, 1, 5] [1, 1, 1] : tensor<4x1x5xf32> to tensor<1x5xf32>
    %s = arith.addf %row, %row : tensor<1x5xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[0, 0, %i] [1, 5, 1] [1, 1, 1] : tensor<1x5xf32> into tensor<1x5x4xf32>
    }
  }
  return %r : tensor<1x5x4xf32>
}
// A comparison of a tensor with itself is no constant as long as its extents are not known.
func.func @alike(%x: tensor<?x?xi32>) -> (tensor<?x?xi1>, tensor<?x?xi1>, tensor<?x?xi32>) {
  %a = arith.cmpi sle, %x, %x : tensor<?x?xi32>
  %b = arith.cmpi ne, %x, %x : tensor<?x?xi32>
  %c = arith.xori %x, %x : tensor<?x?xi32>
  return %a, %b, %c : tensor<?x?xi1>, tensor<?x?xi1>, tensor<?x?xi32>
}
