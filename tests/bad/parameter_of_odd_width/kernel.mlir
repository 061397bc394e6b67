gpu.module @m {
  gpu.func @k(%a: i4)  kernel {
    gpu.return
  }
}
