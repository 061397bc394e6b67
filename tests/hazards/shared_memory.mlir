// Dynamic workgroup memory beyond 48 KiB, and beside static one; a constant table used inside a kernel.
memref.global "private" constant @table : memref<3xi32> = dense<[7, 8, 9]>

// x reversed, through %bytes bytes of dynamic workgroup memory (4 bytes per element, one block).
func.func @reversed(%x: memref<?xi32>, %out: memref<?xi32>, %bytes: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %threads = arith.constant 128 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1)
             dynamic_shared_memory_size %bytes {
    %k0 = arith.constant 0 : index
    %k1 = arith.constant 1 : index
    %raw = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %tile = memref.view %raw[%k0][%n] : memref<?xi8, #gpu.address_space<workgroup>> to memref<?xi32, #gpu.address_space<workgroup>>
    scf.for %i = %tx to %n step %threads {
      %v = memref.load %x[%i] : memref<?xi32>
      memref.store %v, %tile[%i] : memref<?xi32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    scf.for %i = %tx to %n step %threads {
      %last = arith.subi %n, %k1 : index
      %j = arith.subi %last, %i : index
      %v = memref.load %tile[%j] : memref<?xi32, #gpu.address_space<workgroup>>
      memref.store %v, %out[%i] : memref<?xi32>
    }
    gpu.terminator
  }
  return
}

// out = table, from one thread each.
func.func @from_table(%out: memref<3xi32>) {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %t = memref.get_global @table : memref<3xi32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c3, %sy = %c1, %sz = %c1) {
    %v = memref.load %t[%tx] : memref<3xi32>
    memref.store %v, %out[%tx] : memref<3xi32>
    gpu.terminator
  }
  return
}

// out = sums of the blocks of x: static workgroup memory (the reduction's own, and %sums) beside dynamic one, which holds
// the block's part of x, 4 bytes per thread.
func.func @block_sums(%x: memref<?xi32>, %out: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %threads = arith.constant 128 : index
  %bytes = arith.constant 512 : i32
  %n = memref.dim %x, %c0 : memref<?xi32>
  %blocks = arith.divsi %n, %threads : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1)
             dynamic_shared_memory_size %bytes
             workgroup(%sums : memref<128xi32, #gpu.address_space<workgroup>>) {
    %k0 = arith.constant 0 : index
    %k1 = arith.constant 1 : index
    %raw = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %tile = memref.view %raw[%k0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<128xi32, #gpu.address_space<workgroup>>
    %first = arith.muli %bx, %threads : index
    %i = arith.addi %first, %tx : index
    %v = memref.load %x[%i] : memref<?xi32>
    memref.store %v, %tile[%tx] : memref<128xi32, #gpu.address_space<workgroup>>
    %zero = arith.constant 0 : i32
    memref.store %zero, %sums[%tx] : memref<128xi32, #gpu.address_space<workgroup>>
    gpu.barrier
    %last = arith.subi %threads, %k1 : index
    %j = arith.subi %last, %tx : index
    %w = memref.load %tile[%j] : memref<128xi32, #gpu.address_space<workgroup>>
    %s = memref.load %sums[%j] : memref<128xi32, #gpu.address_space<workgroup>>
    %t = arith.addi %w, %s : i32
    %all = gpu.all_reduce add %t {} : (i32) -> (i32)
    %again = memref.load %tile[%tx] : memref<128xi32, #gpu.address_space<workgroup>>
    %same = arith.cmpi eq, %again, %v : i32
    %none = arith.constant -1 : i32
    %right = arith.select %same, %all, %none : i32
    memref.store %right, %out[%i] : memref<?xi32>
    gpu.terminator
  }
  return
}
