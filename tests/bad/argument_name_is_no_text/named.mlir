gpu.module @m {
  gpu.func @k(%x: f32 {aot.name = 3}) kernel {
    gpu.return
  }
}
