// Names that libc, libm and this package's own runtime use too: none of them may be bound to anything but these functions.
#id = affine_map<(i) -> (i)>
module attributes {gpu.container_module} {
  gpu.module @names {
    gpu.func @malloc(%x: memref<?xf32>, %factor: f32) kernel {
      %t = gpu.thread_id x
      %v = memref.load %x[%t] : memref<?xf32>
      %s = arith.mulf %v, %factor : f32
      memref.store %s, %x[%t] : memref<?xf32>
      gpu.return
    }
  }
  // The gpu.module is named like this source, in which all kernels end up in one module.
  func.func @scaled(%x: memref<?xf32>, %factor: f32) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    gpu.launch_func @names::@malloc blocks in (%c1, %c1, %c1) threads in (%n, %c1, %c1)
        args(%x : memref<?xf32>, %factor : f32)
    return
  }
}
