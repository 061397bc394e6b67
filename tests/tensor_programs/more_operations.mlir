func.func @wino(%x: tensor<1x6x6x2xf32>, %w: tensor<3x3x3x2xf32>, %o: tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32> {
  %e0 = tensor.empty() : tensor<6x6x2x3xf32>
  %f = linalg.winograd_filter_transform fmr(F_4_3) ins(%w : tensor<3x3x3x2xf32>) outs(%e0 : tensor<6x6x2x3xf32>) -> tensor<6x6x2x3xf32>
  %e1 = tensor.empty() : tensor<6x6x1x1x1x2xf32>
  %i = linalg.winograd_input_transform fmr(F_4_3) ins(%x : tensor<1x6x6x2xf32>) outs(%e1 : tensor<6x6x1x1x1x2xf32>) -> tensor<6x6x1x1x1x2xf32>
  %cf = tensor.collapse_shape %f [[0, 1], [2], [3]] : tensor<6x6x2x3xf32> into tensor<36x2x3xf32>
  %ci = tensor.collapse_shape %i [[0, 1], [2, 3, 4], [5]] : tensor<6x6x1x1x1x2xf32> into tensor<36x1x2xf32>
  %z = arith.constant 0.0 : f32
  %e2 = tensor.empty() : tensor<36x1x3xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<36x1x3xf32>) -> tensor<36x1x3xf32>
  %m = linalg.batch_matmul ins(%ci, %cf : tensor<36x1x2xf32>, tensor<36x2x3xf32>) outs(%f2 : tensor<36x1x3xf32>) -> tensor<36x1x3xf32>
  %em = tensor.expand_shape %m [[0, 1], [2, 3, 4], [5]] output_shape [6, 6, 1, 1, 1, 3] : tensor<36x1x3xf32> into tensor<6x6x1x1x1x3xf32>
  %r = linalg.winograd_output_transform fmr(F_4_3) ins(%em : tensor<6x6x1x1x1x3xf32>) outs(%o : tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  return %r : tensor<1x4x4x3xf32>
}
func.func @contract(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func @elw(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>] ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @bitcast(%a: tensor<?xi32>) -> tensor<?xf32> {
  %r = tensor.bitcast %a : tensor<?xi32> to tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @bitcast2(%a: tensor<?xi32>) -> tensor<?xf32> {
  %r = arith.bitcast %a : tensor<?xi32> to tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @rankdim(%a: tensor<?x?xf32>, %i: index) -> (index, index) {
  %r = tensor.rank %a : tensor<?x?xf32>
  %d = tensor.dim %a, %i : tensor<?x?xf32>
  return %r, %d : index, index
}
func.func @strided(%x: tensor<8x8xf32>, %u: tensor<4x2xf32>) -> tensor<8x8xf32> {
  %r = tensor.insert_slice %u into %x[0, 1] [4, 2] [2, 3] : tensor<4x2xf32> into tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func @rr(%x: tensor<4x8x6xf32>, %i: index) -> tensor<4x6xf32> {
  %r = tensor.extract_slice %x[0, %i, 0] [4, 1, 6] [1, 1, 1] : tensor<4x8x6xf32> to tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}
func.func @reverse(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i)->(i)>], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %m = arith.subi %n, %i : index
    %k = arith.subi %m, %c1 : index
    %v = tensor.extract %x[%k] : tensor<?xf32>
    linalg.yield %v : f32 } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @unr(%x: tensor<4xf32>) -> tensor<4xf32> {
  %u = tensor.cast %x : tensor<4xf32> to tensor<*xf32>
  %r = tensor.cast %u : tensor<*xf32> to tensor<4xf32>
  %e = math.exp %r : tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func @quant(%a: tensor<4x8xi8>, %b: tensor<8x5xi8>, %za: i32, %zb: i32, %c: tensor<4x5xi32>) -> tensor<4x5xi32> {
  %r = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<4x8xi8>, tensor<8x5xi8>, i32, i32) outs(%c : tensor<4x5xi32>) -> tensor<4x5xi32>
  return %r : tensor<4x5xi32>
}
func.func @mathops(%x: tensor<?xf64>, %y: tensor<?xf64>) -> (tensor<?xf64>, tensor<?xf64>) {
  %a = math.powf %x, %y : tensor<?xf64>
  %b = math.atan2 %x, %y : tensor<?xf64>
  %c = math.erf %x : tensor<?xf64>
  %d = math.rsqrt %y : tensor<?xf64>
  %e = arith.addf %a, %b : tensor<?xf64>
  %f = arith.mulf %c, %d : tensor<?xf64>
  return %e, %f : tensor<?xf64>, tensor<?xf64>
}
func.func @intops(%x: tensor<?xi64>, %y: tensor<?xi64>) -> tensor<?xi64> {
  %a = arith.floordivsi %x, %y : tensor<?xi64>
  %b = arith.ceildivsi %x, %y : tensor<?xi64>
  %c = math.absi %a : tensor<?xi64>
  %d = arith.maxsi %b, %c : tensor<?xi64>
  %e = math.ctpop %d : tensor<?xi64>
  return %e : tensor<?xi64>
}
func.func @iota(%n: index) -> tensor<?xi32> {
  %e = tensor.empty(%n) : tensor<?xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i)->(i)>], iterator_types = ["parallel"]} outs(%e : tensor<?xi32>) {
  ^bb0(%o: i32): %i = linalg.index 0 : index %v = arith.index_cast %i : index to i32 linalg.yield %v : i32 } -> tensor<?xi32>
  return %r : tensor<?xi32>
}
func.func @topk1(%x: tensor<16xf32>) -> (tensor<f32>, f32) {
  %z = arith.constant dense<0xFF800000> : tensor<f32>
  %r = linalg.reduce { arith.maximumf } ins(%x : tensor<16xf32>) outs(%z : tensor<f32>) dimensions = [0]
  %v = tensor.extract %r[] : tensor<f32>
  return %r, %v : tensor<f32>, f32
}
