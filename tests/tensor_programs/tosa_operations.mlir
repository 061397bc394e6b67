func.func @conv(%x: tensor<1x8x8x3xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x8x8x4xf32> {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x8x8x4xf32>
  return %0 : tensor<1x8x8x4xf32>
}
func.func @mm(%x: tensor<1x4x8xf32>, %w: tensor<1x8x5xf32>) -> tensor<1x4x5xf32> {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %x, %w, %z, %z : (tensor<1x4x8xf32>, tensor<1x8x5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x5xf32>
  return %0 : tensor<1x4x5xf32>
}
func.func @red(%x: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %0 = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  return %0 : tensor<?x1xf32>
}
func.func @arg(%x: tensor<4x8xf32>) -> tensor<4xi32> {
  %0 = tosa.argmax %x {axis = 1 : i32} : (tensor<4x8xf32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @gath(%x: tensor<1x8x4xf32>, %i: tensor<1x3xi32>) -> tensor<1x3x4xf32> {
  %0 = tosa.gather %x, %i : (tensor<1x8x4xf32>, tensor<1x3xi32>) -> tensor<1x3x4xf32>
  return %0 : tensor<1x3x4xf32>
}
func.func @scat(%x: tensor<1x8x4xf32>, %i: tensor<1x3xi32>, %u: tensor<1x3x4xf32>) -> tensor<1x8x4xf32> {
  %0 = tosa.scatter %x, %i, %u : (tensor<1x8x4xf32>, tensor<1x3xi32>, tensor<1x3x4xf32>) -> tensor<1x8x4xf32>
  return %0 : tensor<1x8x4xf32>
}
func.func @sig(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tosa.erf %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tosa.clamp %1 {min_val = 0.1 : f32, max_val = 0.9 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func @if(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %0 = tosa.cond_if %c : tensor<i1> -> tensor<4xf32> {
    %1 = tosa.exp %x : (tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %1 : tensor<4xf32>
  } else {
    tosa.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func @cat(%x: tensor<2x4xf32>, %y: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %0 = tosa.concat %x, %y {axis = 0 : i32} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
func.func @tr(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
func.func @maxpool(%x: tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32> {
  %0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32>
  return %0 : tensor<1x4x4x3xf32>
}
func.func @avgpool(%x: tensor<1x8x8x3xf32>) -> tensor<1x4x4x3xf32> {
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.avg_pool2d %x, %z, %z {acc_type = f32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x8x8x3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x3xf32>
  return %0 : tensor<1x4x4x3xf32>
}
func.func @slice(%x: tensor<6x4xf32>) -> tensor<2x3xf32> {
  %s = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %n = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.slice %x, %s, %n : (tensor<6x4xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @reshape(%x: tensor<6x4xf32>) -> tensor<24xf32> {
  %n = tosa.const_shape {values = dense<[24]> : tensor<1xindex>} : () -> !tosa.shape<1>
  %0 = tosa.reshape %x, %n : (tensor<6x4xf32>, !tosa.shape<1>) -> tensor<24xf32>
  return %0 : tensor<24xf32>
}
func.func @i8(%x: tensor<4xi8>) -> tensor<4xi32> {
  %0 = tosa.cast %x : (tensor<4xi8>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @while(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %one = "tosa.const"() {values = dense<1> : tensor<i32>} : () -> tensor<i32>
  %zero = "tosa.const"() {values = dense<0> : tensor<i32>} : () -> tensor<i32>
  %r:2 = tosa.while_loop (%i = %zero, %y = %x) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
    %c = tosa.greater %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %c : tensor<i1>
  } do {
  ^bb0(%i: tensor<i32>, %y: tensor<4xf32>):
    %j = tosa.add %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %z = tosa.add %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %j, %z : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func @t(%a: tensor<4x8xf32>, %b: tensor<1x8xf32>) -> tensor<4x8xf32> {
  %0 = tosa.add %a, %b : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %1 = tosa.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
