func.func @f(%x: tensor<1x?x3xf32>, %w: tensor<3x3x4xf32>, %o: tensor<1x?x4xf32>) -> tensor<1x?x4xf32> {
  %r = linalg.conv_1d_nwc_wcf {dilations = dense<1> : tensor<1xi64>, strides = dense<-1> : tensor<1xi64>}
      ins(%x, %w : tensor<1x?x3xf32>, tensor<3x3x4xf32>) outs(%o : tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  return %r : tensor<1x?x4xf32>
}
