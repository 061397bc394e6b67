// Kernels without host code, called with grid= and block=.
gpu.module @called {
  gpu.func @kernel2(%x0: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %n = memref.dim %out, %c0 : memref<?xf32>
    %block = gpu.block_id x
    %threads = gpu.block_dim x
    %thread = gpu.thread_id x
    %first = arith.muli %block, %threads : index
    %i = arith.addi %first, %thread : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v0 = memref.load %x0[%i] : memref<?xf32>
      %a0 = arith.mulf %v0, %v0 : f32
      memref.store %a0, %out[%i] : memref<?xf32>
    }
    gpu.return
  }
  gpu.func @kernel8(%x0: memref<?xf32>, %x1: memref<?xf32>, %x2: memref<?xf32>, %x3: memref<?xf32>, %x4: memref<?xf32>, %x5: memref<?xf32>, %x6: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %n = memref.dim %out, %c0 : memref<?xf32>
    %block = gpu.block_id x
    %threads = gpu.block_dim x
    %thread = gpu.thread_id x
    %first = arith.muli %block, %threads : index
    %i = arith.addi %first, %thread : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v0 = memref.load %x0[%i] : memref<?xf32>
      %v1 = memref.load %x1[%i] : memref<?xf32>
      %v2 = memref.load %x2[%i] : memref<?xf32>
      %v3 = memref.load %x3[%i] : memref<?xf32>
      %v4 = memref.load %x4[%i] : memref<?xf32>
      %v5 = memref.load %x5[%i] : memref<?xf32>
      %v6 = memref.load %x6[%i] : memref<?xf32>
      %a1 = arith.addf %v0, %v1 : f32
      %a2 = arith.addf %a1, %v2 : f32
      %a3 = arith.addf %a2, %v3 : f32
      %a4 = arith.addf %a3, %v4 : f32
      %a5 = arith.addf %a4, %v5 : f32
      %a6 = arith.addf %a5, %v6 : f32
      memref.store %a6, %out[%i] : memref<?xf32>
    }
    gpu.return
  }
}
