// Tensor arguments are values: returned arguments are the caller's objects, everything else is a fresh array.
func.func @identity(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
func.func @exchange(%x: tensor<6xf32>, %y: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  return %y, %x : tensor<6xf32>, tensor<6xf32>
}
func.func @columns(%x: tensor<8x8xf32>) -> tensor<8x3xf32> {
  %s = tensor.extract_slice %x[0, 4] [8, 3] [1, 1] : tensor<8x8xf32> to tensor<8x3xf32>
  return %s : tensor<8x3xf32>
}
func.func @flat(%x: tensor<3x5xf32>) -> tensor<15xf32> {
  %s = tensor.collapse_shape %x [[0, 1]] : tensor<3x5xf32> into tensor<15xf32>
  return %s : tensor<15xf32>
}
func.func @choose(%x: tensor<6xf32>, %y: tensor<6xf32>, %first: i1) -> tensor<6xf32> {
  %r = arith.select %first, %x, %y : tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func @primes() -> tensor<5xi32> {
  %c = arith.constant dense<[2, 3, 5, 7, 11]> : tensor<5xi32>
  return %c : tensor<5xi32>
}
// The caller's x keeps its value.
func.func @with_last(%x: tensor<6xf32>, %v: f32) -> tensor<6xf32> {
  %c5 = arith.constant 5 : index
  %r = tensor.insert %v into %x[%c5] : tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func @before_and_after(%x: tensor<6xf32>, %v: f32) -> (tensor<6xf32>, tensor<6xf32>) {
  %c5 = arith.constant 5 : index
  %r = tensor.insert %v into %x[%c5] : tensor<6xf32>
  return %x, %r : tensor<6xf32>, tensor<6xf32>
}
// Marked writable: x is a destination, written and returned.
func.func @with_last_in_place(%x: tensor<6xf32> {bufferization.writable = true}, %v: f32) -> tensor<6xf32> {
  %c5 = arith.constant 5 : index
  %r = tensor.insert %v into %x[%c5] : tensor<6xf32>
  return %r : tensor<6xf32>
}
// The argument is both an input and the `outs` of the op: not a destination.
func.func @exp_over(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = linalg.exp ins(%x : tensor<?xf32>) outs(%x : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
// arith on tensors has no destination either.
func.func @plus(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.addf %x, %y : tensor<?xf32>
  return %r : tensor<?xf32>
}
// A destination through a fill and a product: c = 0; c += a @ b.
func.func @product_into(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%i : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
