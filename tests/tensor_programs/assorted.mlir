func.func @reshape2(%x: tensor<?x?xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = tensor.reshape %x(%s) : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %q = math.exp %r : tensor<?x?xf32>
  return %q : tensor<?x?xf32>
}
func.func @reshape_fe(%x: tensor<?x?xf32>, %a: index, %b: index) -> tensor<?x?x2xf32> {
  %two = arith.constant 2 : index
  %s = tensor.from_elements %a, %b, %two : tensor<3xindex>
  %r = tensor.reshape %x(%s) : (tensor<?x?xf32>, tensor<3xindex>) -> tensor<?x?x2xf32>
  return %r : tensor<?x?x2xf32>
}
func.func @reshape0(%x: tensor<1xf32>, %s: tensor<0xindex>) -> tensor<f32> {
  %r = tensor.reshape %x(%s) : (tensor<1xf32>, tensor<0xindex>) -> tensor<f32>
  return %r : tensor<f32>
}
func.func @switch(%x: tensor<4xf32>, %k: index) -> tensor<4xf32> {
  %r = scf.index_switch %k -> tensor<4xf32>
  case 0 { %a = math.exp %x : tensor<4xf32> scf.yield %a : tensor<4xf32> }
  case 1 { %a = math.sin %x : tensor<4xf32> scf.yield %a : tensor<4xf32> }
  default { scf.yield %x : tensor<4xf32> }
  return %r : tensor<4xf32>
}
func.func @exec(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = scf.execute_region -> tensor<4xf32> { %a = math.exp %x : tensor<4xf32> scf.yield %a : tensor<4xf32> }
  return %r : tensor<4xf32>
}
func.func @alloct(%n: index, %v: f32) -> tensor<?xf32> {
  %t = bufferization.alloc_tensor(%n) : tensor<?xf32>
  %f = linalg.fill ins(%v : f32) outs(%t : tensor<?xf32>) -> tensor<?xf32>
  %c = bufferization.alloc_tensor() copy(%f) : tensor<?xf32>
  %c0 = arith.constant 0 : index
  %z = arith.constant 9.0 : f32
  %g = tensor.insert %z into %c[%c0] : tensor<?xf32>
  return %g : tensor<?xf32>
}
func.func @whl(%x: tensor<?xf32>, %n: index) -> (tensor<?xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.while (%y = %x, %i = %c0) : (tensor<?xf32>, index) -> (tensor<?xf32>, index) {
    %go = arith.cmpi slt, %i, %n : index
    scf.condition(%go) %y, %i : tensor<?xf32>, index
  } do {
  ^bb0(%y: tensor<?xf32>, %i: index):
    %z = arith.addf %y, %x : tensor<?xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %z, %j : tensor<?xf32>, index
  }
  return %r#0, %r#1 : tensor<?xf32>, index
}
func.func @argmax(%x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xi64>) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %zi = arith.constant 0 : i64
  %e = tensor.empty(%m) : tensor<?xf32>
  %f = linalg.fill ins(%ninf : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %ei = tensor.empty(%m) : tensor<?xi64>
  %fi = linalg.fill ins(%zi : i64) outs(%ei : tensor<?xi64>) -> tensor<?xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i)>, affine_map<(i,j)->(i)>], iterator_types = ["parallel","reduction"]} ins(%x : tensor<?x?xf32>) outs(%f, %fi : tensor<?xf32>, tensor<?xi64>) {
  ^bb0(%v: f32, %a: f32, %b: i64):
    %j = linalg.index 1 : index
    %k = arith.index_cast %j : index to i64
    %g = arith.cmpf ogt, %v, %a : f32
    %s = arith.select %g, %v, %a : f32
    %t = arith.select %g, %k, %b : i64
    linalg.yield %s, %t : f32, i64
  } -> (tensor<?xf32>, tensor<?xi64>)
  return %r#0, %r#1 : tensor<?xf32>, tensor<?xi64>
}
func.func @cumsum(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%o = %e, %acc = %z) -> (tensor<?xf32>, f32) {
    %v = tensor.extract %x[%i] : tensor<?xf32>
    %s = arith.addf %acc, %v : f32
    %q = tensor.insert %s into %o[%i] : tensor<?xf32>
    scf.yield %q, %s : tensor<?xf32>, f32
  }
  return %r#0 : tensor<?xf32>
}
func.func @multired(%x: tensor<?x?x?xf32>) -> tensor<?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<?x?x?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce { arith.addf } ins(%x : tensor<?x?x?xf32>) outs(%f : tensor<?xf32>) dimensions = [0, 2]
  return %r : tensor<?xf32>
}
func.func @f16sum(%x: tensor<?xf16>) -> tensor<f16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<f16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<f16>) -> tensor<f16>
  %r = linalg.reduce { arith.addf } ins(%x : tensor<?xf16>) outs(%f : tensor<f16>) dimensions = [0]
  return %r : tensor<f16>
}
func.func @clamp(%x: tensor<?xbf16>, %lo: bf16, %hi: bf16) -> tensor<?xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xbf16>
  %e = tensor.empty(%n) : tensor<?xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]} ins(%x : tensor<?xbf16>) outs(%e : tensor<?xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %a = arith.maximumf %v, %lo : bf16
    %b = arith.minimumf %a, %hi : bf16
    linalg.yield %b : bf16
  } -> tensor<?xbf16>
  return %r : tensor<?xbf16>
}
func.func @slice_dyn(%x: tensor<?x?xf32>, %o: index, %n: index) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c1 : tensor<?x?xf32>
  %s = tensor.extract_slice %x[%o, 0] [%n, %m] [2, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
func.func @inplace_update(%x: tensor<8x8xf32> {bufferization.writable = true}, %u: tensor<2x2xf32>, %i: index, %j: index) -> tensor<8x8xf32> {
  %r = tensor.insert_slice %u into %x[%i, %j] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func @accumulate(%x: tensor<?xf32>, %acc: tensor<?xf32>) -> tensor<?xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%acc : tensor<?xf32>) {
  ^bb0(%v: f32, %o: f32): %s = arith.addf %v, %o : f32 linalg.yield %s : f32 } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @chain_dest(%x: tensor<?xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {
  %a = linalg.exp ins(%x : tensor<?xf32>) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.negf ins(%a : tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
  return %b : tensor<?xf32>
}
func.func @two_dest(%x: tensor<?xf32>, %o: tensor<?xf32>, %p: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %a = linalg.exp ins(%x : tensor<?xf32>) outs(%o : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.negf ins(%a : tensor<?xf32>) outs(%p : tensor<?xf32>) -> tensor<?xf32>
  return %b, %a : tensor<?xf32>, tensor<?xf32>
}
