// Constant predicates on mbarrier operations (sm_90): true is dropped, false takes the operation away.
!barrier = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>

// out[0] = 1 once a barrier without pending transactions has completed its phase.
func.func @expect(%out: memref<1xi32>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
    %k0 = arith.constant 0 : index
    %k1 = arith.constant 1 : index
    %ticks = arith.constant 10000000 : index
    %one = arith.constant 1 : i32
    %true = arith.constant true
    %false = arith.constant false
    %leads = arith.cmpi eq, %tx, %k0 : index
    %bar = nvgpu.mbarrier.create -> !barrier
    nvgpu.mbarrier.init %bar[%k0], %k1, predicate = %leads : !barrier
    gpu.barrier
    scf.if %leads {
      nvgpu.mbarrier.arrive.expect_tx %bar[%k0], %k0, predicate = %true : !barrier
      nvgpu.mbarrier.arrive.expect_tx %bar[%k0], %k1, predicate = %false : !barrier
    }
    nvgpu.mbarrier.try_wait.parity %bar[%k0], %false, %ticks : !barrier
    scf.if %leads {
      memref.store %one, %out[%k0] : memref<1xi32>
    }
    gpu.terminator
  }
  return
}
