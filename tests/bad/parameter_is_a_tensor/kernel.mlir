gpu.module @m {
  gpu.func @k(%a: tensor<4xf32>)  kernel {
    gpu.return
  }
}
