// Hopper's own instructions (sm_90a only, see aot.toml): TMA brings tiles into swizzled shared memory, a warpgroup
// multiplies them with wgmma. One block of 128 threads computes a 128 x 128 tile; host code makes the descriptors.
!barrier = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>
!map_a = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!map_b = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!accumulator = !nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>
#workgroup = #gpu.address_space<workgroup>

// d = a @ b for f16 a (m, k) and b (k, n), f32 d (m, n); m and n multiples of 128, k of 64
func.func @matmul(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  // 32 KiB for one step's tiles, and room to start them at a multiple of 1024 bytes as the swizzle wants.
  %shared = arith.constant 33792 : i32
  %m = memref.dim %a, %c0 : memref<?x?xf16>
  %k = memref.dim %a, %c1 : memref<?x?xf16>
  %n = memref.dim %b, %c1 : memref<?x?xf16>
  %rest_m = arith.remui %m, %c128 : index
  %rest_n = arith.remui %n, %c128 : index
  %rest_k = arith.remui %k, %c64 : index
  %rest_mn = arith.ori %rest_m, %rest_n : index
  %rest = arith.ori %rest_mn, %rest_k : index
  %fits = arith.cmpi eq, %rest, %c0 : index
  cf.assert %fits, "wgmma.matmul: m and n must be multiples of 128, k of 64"
  %blocks_m = arith.divui %m, %c128 : index
  %blocks_n = arith.divui %n, %c128 : index
  %steps = arith.divui %k, %c64 : index
  %any_a = memref.cast %a : memref<?x?xf16> to memref<*xf16>
  %any_b = memref.cast %b : memref<?x?xf16> to memref<*xf16>
  %desc_a = nvgpu.tma.create.descriptor %any_a box[%c128, %c64] : memref<*xf16> -> !map_a
  %desc_b = nvgpu.tma.create.descriptor %any_b box[%c64, %c64] : memref<*xf16> -> !map_b
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks_n, %gy = %blocks_m, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c128, %sy = %c1, %sz = %c1)
             dynamic_shared_memory_size %shared {
    %k0 = arith.constant 0 : index
    %k1 = arith.constant 1 : index
    %k2 = arith.constant 2 : index
    %k64 = arith.constant 64 : index
    %k128 = arith.constant 128 : index
    %k1023 = arith.constant 1023 : index
    %k1024 = arith.constant 1024 : index
    %a_bytes = arith.constant 16384 : index
    %half_bytes = arith.constant 8192 : index
    %stage_bytes = arith.constant 32768 : index
    %ticks = arith.constant 10000000 : index
    %memory = gpu.dynamic_shared_memory : memref<?xi8, #workgroup>
    %address = memref.extract_aligned_pointer_as_index %memory : memref<?xi8, #workgroup> -> index
    %up = arith.addi %address, %k1023 : index
    %line = arith.divui %up, %k1024 : index
    %aligned = arith.muli %line, %k1024 : index
    %at_a = arith.subi %aligned, %address : index
    %at_b = arith.addi %at_a, %a_bytes : index
    %at_b1 = arith.addi %at_b, %half_bytes : index
    %tile_a = memref.view %memory[%at_a][] : memref<?xi8, #workgroup> to memref<128x64xf16, #workgroup>
    %tile_b = memref.view %memory[%at_b][] : memref<?xi8, #workgroup> to memref<64x128xf16, #workgroup>
    // wgmma wants B as two halves of 64 columns, each with its own 128-byte swizzled rows.
    %half_b0 = memref.view %memory[%at_b][] : memref<?xi8, #workgroup> to memref<64x64xf16, #workgroup>
    %half_b1 = memref.view %memory[%at_b1][] : memref<?xi8, #workgroup> to memref<64x64xf16, #workgroup>
    %row = arith.muli %by, %k128 : index
    %col0 = arith.muli %bx, %k128 : index
    %col1 = arith.addi %col0, %k64 : index
    %leads = arith.cmpi eq, %tx, %k0 : index

    %bar = nvgpu.mbarrier.create -> !barrier
    scf.if %leads {
      nvgpu.mbarrier.init %bar[%k0], %k1 : !barrier
    }
    gpu.barrier
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !accumulator
    %sum = scf.for %step = %k0 to %steps step %k1 iter_args(%acc = %zero) -> !accumulator {
      scf.if %leads {
        %depth = arith.muli %step, %k64 : index
        nvgpu.mbarrier.arrive.expect_tx %bar[%k0], %stage_bytes : !barrier
        nvgpu.tma.async.load %desc_a[%depth, %row], %bar[%k0] to %tile_a : !map_a, !barrier -> memref<128x64xf16, #workgroup>
        nvgpu.tma.async.load %desc_b[%col0, %depth], %bar[%k0] to %half_b0 : !map_b, !barrier -> memref<64x64xf16, #workgroup>
        nvgpu.tma.async.load %desc_b[%col1, %depth], %bar[%k0] to %half_b1 : !map_b, !barrier -> memref<64x64xf16, #workgroup>
      }
      %parity = arith.remui %step, %k2 : index
      %odd = arith.cmpi eq, %parity, %k1 : index
      nvgpu.mbarrier.try_wait.parity %bar[%k0], %odd, %ticks : !barrier
      %wa = nvgpu.warpgroup.generate.descriptor %tile_a, %desc_a : memref<128x64xf16, #workgroup>, !map_a
          -> !nvgpu.warpgroup.descriptor<tensor = memref<128x64xf16, 3>>
      %wb = nvgpu.warpgroup.generate.descriptor %tile_b, %desc_b : memref<64x128xf16, #workgroup>, !map_b
          -> !nvgpu.warpgroup.descriptor<tensor = memref<64x128xf16, 3>>
      // waitGroup = 0: the tiles are overwritten by the next step's copies, so the product must be done.
      %next = nvgpu.warpgroup.mma %wa, %wb, %acc {transposeB, waitGroup = 0 : i64}
          : <tensor = memref<128x64xf16, 3>>, <tensor = memref<64x128xf16, 3>>, <fragmented = vector<128x128xf32>>
          -> <fragmented = vector<128x128xf32>>
      gpu.barrier
      scf.yield %next : !accumulator
    }
    %tile_d = memref.subview %d[%row, %col0] [128, 128] [1, 1]
        : memref<?x?xf32> to memref<128x128xf32, strided<[?, 1], offset: ?>>
    nvgpu.warpgroup.mma.store %sum, %tile_d : <fragmented = vector<128x128xf32>> to memref<128x128xf32, strided<[?, 1], offset: ?>>
    gpu.terminator
  }
  return
}
