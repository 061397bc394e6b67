// A kernel in a gpu.module of its own and host code that launches it, as other compilers emit them.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @quadruple(%a: i32, %out: memref<2xi32>) kernel {
      %t = gpu.thread_id x
      %twice = arith.addi %a, %a : i32
      %four_times = arith.addi %twice, %twice : i32
      memref.store %four_times, %out[%t] : memref<2xi32>
      gpu.return
    }
  }

  // out[:] = 4 * a
  func.func @times4(%a: i32, %out: memref<2xi32>) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    gpu.launch_func @kernels::@quadruple blocks in (%c1, %c1, %c1) threads in (%c2, %c1, %c1)
        args(%a : i32, %out : memref<2xi32>)
    return
  }
}
