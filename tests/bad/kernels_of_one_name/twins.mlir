gpu.module @first {
  gpu.func @k() kernel {
    gpu.return
  }
}
gpu.module @second {
  gpu.func @k() kernel {
    gpu.return
  }
}
