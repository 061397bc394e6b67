// Updates that many threads make of three numbers, and that no instruction makes.
func.func @products_f32(%x: memref<?xf32>, %y: memref<3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf32>
    %j = arith.remui %i, %c3 : index
    %old = memref.atomic_rmw mulf %v, %y[%j] : (f32, memref<3xf32>) -> f32
  }
  return
}

func.func @products_f16(%x: memref<?xf16>, %y: memref<3xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xf16>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf16>
    %j = arith.remui %i, %c3 : index
    %old = memref.atomic_rmw mulf %v, %y[%j] : (f16, memref<3xf16>) -> f16
  }
  return
}

func.func @products_i64(%x: memref<?xi64>, %y: memref<3xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xi64>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xi64>
    %j = arith.remui %i, %c3 : index
    %old = memref.atomic_rmw muli %v, %y[%j] : (i64, memref<3xi64>) -> i64
  }
  return
}

func.func @sums_f64(%x: memref<?xf64>, %y: memref<3xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xf64>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf64>
    %j = arith.remui %i, %c3 : index
    %old = memref.generic_atomic_rmw %y[%j] : memref<3xf64> {
    ^bb0(%now: f64):
      %new = arith.addf %now, %v : f64
      memref.atomic_yield %new : f64
    }
  }
  return
}

func.func @sums_bf16(%x: memref<?xbf16>, %y: memref<3xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xbf16>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xbf16>
    %j = arith.remui %i, %c3 : index
    %old = memref.generic_atomic_rmw %y[%j] : memref<3xbf16> {
    ^bb0(%now: bf16):
      %new = arith.addf %now, %v : bf16
      memref.atomic_yield %new : bf16
    }
  }
  return
}

func.func @sums_i8(%x: memref<?xi8>, %y: memref<3xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = memref.dim %x, %c0 : memref<?xi8>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xi8>
    %j = arith.remui %i, %c3 : index
    %old = memref.generic_atomic_rmw %y[%j] : memref<3xi8> {
    ^bb0(%now: i8):
      %new = arith.addi %now, %v : i8
      memref.atomic_yield %new : i8
    }
  }
  return
}

// The product of each block's 128 numbers, in its shared memory.
func.func @products_of_blocks(%x: memref<?xf32>, %out: memref<?xf32>) {
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %threads = arith.constant 128 : index
  %n = memref.dim %out, %c0 : memref<?xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %n, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1)
             workgroup(%product : memref<1xf32, #gpu.address_space<workgroup>>) {
    %k0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %first = arith.cmpi eq, %tx, %k0 : index
    scf.if %first {
      memref.store %one, %product[%k0] : memref<1xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    %begin = arith.muli %bx, %sx : index
    %i = arith.addi %begin, %tx : index
    %v = memref.load %x[%i] : memref<?xf32>
    %old = memref.atomic_rmw mulf %v, %product[%k0] : (f32, memref<1xf32, #gpu.address_space<workgroup>>) -> f32
    gpu.barrier
    %all = memref.load %product[%k0] : memref<1xf32, #gpu.address_space<workgroup>>
    memref.store %all, %out[%bx] : memref<?xf32>
    gpu.terminator
  }
  return
}
