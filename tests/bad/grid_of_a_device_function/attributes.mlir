gpu.module @m {
  gpu.func @helper(%x: f32) attributes {aot.grid = [1]} {
    gpu.return
  }
  gpu.func @k(%x: f32) kernel {
    gpu.return
  }
}
