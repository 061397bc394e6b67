// Kernels launched with attributes, of their own or of the call: clusters in three dimensions, cooperative and dependent launches.
gpu.module @attributes {
  // places[b] = where block b stands in its cluster: x, y, z.
  gpu.func @clusters(%places: memref<?x3xi32>) kernel attributes {aot.needs = "sm_90"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %bz = gpu.block_id z
    %gx = gpu.grid_dim x
    %gy = gpu.grid_dim y
    %slices = arith.muli %bz, %gy : index
    %row = arith.addi %slices, %by : index
    %rows = arith.muli %row, %gx : index
    %block = arith.addi %rows, %bx : index
    %x = gpu.cluster_block_id x
    %y = gpu.cluster_block_id y
    %z = gpu.cluster_block_id z
    %x32 = arith.index_cast %x : index to i32
    %y32 = arith.index_cast %y : index to i32
    %z32 = arith.index_cast %z : index to i32
    memref.store %x32, %places[%block, %c0] : memref<?x3xi32>
    memref.store %y32, %places[%block, %c1] : memref<?x3xi32>
    memref.store %z32, %places[%block, %c2] : memref<?x3xi32>
    gpu.return
  }

  // Clusters of 1 x 2 x 4: sizes = that.
  gpu.func @clusters_1x2x4(%sizes: memref<3xi32>) kernel attributes {aot.needs = "sm_90", nvvm.cluster_dim = array<i32: 1, 2, 4>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = gpu.cluster_dim_blocks x
    %y = gpu.cluster_dim_blocks y
    %z = gpu.cluster_dim_blocks z
    %x32 = arith.index_cast %x : index to i32
    %y32 = arith.index_cast %y : index to i32
    %z32 = arith.index_cast %z : index to i32
    memref.store %x32, %sizes[%c0] : memref<3xi32>
    memref.store %y32, %sizes[%c1] : memref<3xi32>
    memref.store %z32, %sizes[%c2] : memref<3xi32>
    gpu.return
  }

  // Blocks of one thread add one each and wait for each other, so that all must run at the same time; seen[b] = the count after that.
  gpu.func @meeting(%count: memref<1xi32>, %seen: memref<?xi32>) kernel attributes {aot.cooperative} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %block = gpu.block_id x
    %grid = gpu.grid_dim x
    %all = arith.index_cast %grid : index to i32
    %mine = memref.atomic_rmw addi %one, %count[%c0] : (i32, memref<1xi32>) -> i32
    %last = scf.while (%old = %mine) : (i32) -> i32 {
      %now = memref.atomic_rmw addi %zero, %count[%c0] : (i32, memref<1xi32>) -> i32
      %waits = arith.cmpi ult, %now, %all : i32
      scf.condition(%waits) %now : i32
    } do {
    ^bb0(%now: i32):
      scf.yield %now : i32
    }
    memref.store %last, %seen[%block] : memref<?xi32>
    gpu.return
  }

  // One block, which lets dependents start and then works for a while: x[0] = rounds.
  gpu.func @first(%x: memref<1xi32>, %rounds: i32) kernel {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    nvvm.griddepcontrol launch_dependents
    memref.store %zero, %x[%c0] : memref<1xi32>
    scf.for %i = %zero to %rounds step %one : i32 {
      %old = memref.atomic_rmw addi %one, %x[%c0] : (i32, memref<1xi32>) -> i32
    }
    gpu.return
  }

  // y[0] = x[0] as the kernel before it left it.
  gpu.func @second(%x: memref<1xi32>, %y: memref<1xi32>) kernel attributes {aot.programmatic, aot.priority = -1 : i32, aot.needs = "sm_90"} {
    %c0 = arith.constant 0 : index
    nvvm.griddepcontrol wait
    %value = memref.load %x[%c0] : memref<1xi32>
    memref.store %value, %y[%c0] : memref<1xi32>
    gpu.return
  }
}
