// Kernel level: no host code at all. Python calls the kernel; `aot.grid` and `aot.block` give the launch when the call
// does not: dimensions of the array arguments are numbered in order, here (n, blocks).
#workgroup = #gpu.address_space<workgroup>
gpu.module @reduce {
  // partial[b] = sum of the elements that block b visits, 256 threads each; len(partial) blocks share x
  gpu.func @block_sum(%x: memref<?xf32>, %partial: memref<?xf32>)
      workgroup(%scratch: memref<256xf32, #workgroup>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>,
                         aot.grid = [affine_map<(n, blocks) -> (blocks)>], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %x, %c0 : memref<?xf32>
    %thread = gpu.thread_id x
    %block = gpu.block_id x
    %threads = gpu.block_dim x
    %blocks = gpu.grid_dim x
    %first_of_block = arith.muli %block, %threads : index
    %first = arith.addi %first_of_block, %thread : index
    %stride = arith.muli %blocks, %threads : index
    %own = scf.for %i = %first to %n step %stride iter_args(%acc = %zero) -> f32 {
      %v = memref.load %x[%i] : memref<?xf32>
      %s = arith.addf %acc, %v : f32
      scf.yield %s : f32
    }
    memref.store %own, %scratch[%thread] : memref<256xf32, #workgroup>
    gpu.barrier
    // Halve the number of adding threads: 128, 64, …, 1.
    %rest = scf.while (%width = %c128) : (index) -> index {
      %more = arith.cmpi ugt, %width, %c0 : index
      scf.condition(%more) %width : index
    } do {
    ^bb0(%width: index):
      %adds = arith.cmpi ult, %thread, %width : index
      scf.if %adds {
        %other = arith.addi %thread, %width : index
        %a = memref.load %scratch[%thread] : memref<256xf32, #workgroup>
        %b = memref.load %scratch[%other] : memref<256xf32, #workgroup>
        %s = arith.addf %a, %b : f32
        memref.store %s, %scratch[%thread] : memref<256xf32, #workgroup>
      }
      gpu.barrier
      %next = arith.divui %width, %c2 : index
      scf.yield %next : index
    }
    %is_first = arith.cmpi eq, %thread, %c0 : index
    scf.if %is_first {
      %total = memref.load %scratch[%c0] : memref<256xf32, #workgroup>
      memref.store %total, %partial[%block] : memref<?xf32>
    }
    gpu.return
  }
}
