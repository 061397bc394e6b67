gpu.module @m {
  gpu.func @k(%a: i32) workgroup(%s: memref<?xf32, #gpu.address_space<workgroup>>) kernel {
    gpu.return
  }
}
