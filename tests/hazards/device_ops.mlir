// Device code that upstream's conversion to NVVM has no pattern for, or has one for some types only. Kernel level: the
// host does nothing. `tests/gpu/test_device_ops_gpu.py` has the references.
#workgroup = #gpu.address_space<workgroup>
#lines = affine_map<(n) -> (n ceildiv 256)>
#rows = affine_map<(n, functions, m) -> (n ceildiv 256)>
gpu.module @device_ops {
  // out[k, i] = function k of x[i], in the order of the test's list
  gpu.func @math_f16(%x: memref<?xf16>, %out: memref<?x?xf16>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, aot.grid = [#rows], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xf16>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xf16>
      %k0 = arith.constant 0 : index
      %y0 = math.exp %v : f16
      memref.store %y0, %out[%k0, %i] : memref<?x?xf16>
      %k1 = arith.constant 1 : index
      %y1 = math.exp2 %v : f16
      memref.store %y1, %out[%k1, %i] : memref<?x?xf16>
      %k2 = arith.constant 2 : index
      %y2 = math.expm1 %v : f16
      memref.store %y2, %out[%k2, %i] : memref<?x?xf16>
      %k3 = arith.constant 3 : index
      %y3 = math.log %v : f16
      memref.store %y3, %out[%k3, %i] : memref<?x?xf16>
      %k4 = arith.constant 4 : index
      %y4 = math.log2 %v : f16
      memref.store %y4, %out[%k4, %i] : memref<?x?xf16>
      %k5 = arith.constant 5 : index
      %y5 = math.log10 %v : f16
      memref.store %y5, %out[%k5, %i] : memref<?x?xf16>
      %k6 = arith.constant 6 : index
      %y6 = math.log1p %v : f16
      memref.store %y6, %out[%k6, %i] : memref<?x?xf16>
      %k7 = arith.constant 7 : index
      %y7 = math.tanh %v : f16
      memref.store %y7, %out[%k7, %i] : memref<?x?xf16>
      %k8 = arith.constant 8 : index
      %y8 = math.sin %v : f16
      memref.store %y8, %out[%k8, %i] : memref<?x?xf16>
      %k9 = arith.constant 9 : index
      %y9 = math.cos %v : f16
      memref.store %y9, %out[%k9, %i] : memref<?x?xf16>
      %k10 = arith.constant 10 : index
      %y10 = math.erf %v : f16
      memref.store %y10, %out[%k10, %i] : memref<?x?xf16>
      %k11 = arith.constant 11 : index
      %y11 = math.sqrt %v : f16
      memref.store %y11, %out[%k11, %i] : memref<?x?xf16>
      %k12 = arith.constant 12 : index
      %y12 = math.rsqrt %v : f16
      memref.store %y12, %out[%k12, %i] : memref<?x?xf16>
      %k13 = arith.constant 13 : index
      %y13 = math.absf %v : f16
      memref.store %y13, %out[%k13, %i] : memref<?x?xf16>
      %k14 = arith.constant 14 : index
      %y14 = math.ceil %v : f16
      memref.store %y14, %out[%k14, %i] : memref<?x?xf16>
      %k15 = arith.constant 15 : index
      %y15 = math.floor %v : f16
      memref.store %y15, %out[%k15, %i] : memref<?x?xf16>
      %k16 = arith.constant 16 : index
      %y16 = math.round %v : f16
      memref.store %y16, %out[%k16, %i] : memref<?x?xf16>
      %k17 = arith.constant 17 : index
      %y17 = math.roundeven %v : f16
      memref.store %y17, %out[%k17, %i] : memref<?x?xf16>
      %k18 = arith.constant 18 : index
      %y18 = math.trunc %v : f16
      memref.store %y18, %out[%k18, %i] : memref<?x?xf16>
      %k19 = arith.constant 19 : index
      %y19 = math.sinh %v : f16
      memref.store %y19, %out[%k19, %i] : memref<?x?xf16>
      %k20 = arith.constant 20 : index
      %y20 = math.cosh %v : f16
      memref.store %y20, %out[%k20, %i] : memref<?x?xf16>
      %k21 = arith.constant 21 : index
      %y21 = math.asin %v : f16
      memref.store %y21, %out[%k21, %i] : memref<?x?xf16>
      %k22 = arith.constant 22 : index
      %y22 = math.acos %v : f16
      memref.store %y22, %out[%k22, %i] : memref<?x?xf16>
      %k23 = arith.constant 23 : index
      %y23 = math.atan %v : f16
      memref.store %y23, %out[%k23, %i] : memref<?x?xf16>
      %k24 = arith.constant 24 : index
      %y24 = math.asinh %v : f16
      memref.store %y24, %out[%k24, %i] : memref<?x?xf16>
      %k25 = arith.constant 25 : index
      %y25 = math.acosh %v : f16
      memref.store %y25, %out[%k25, %i] : memref<?x?xf16>
      %k26 = arith.constant 26 : index
      %y26 = math.atanh %v : f16
      memref.store %y26, %out[%k26, %i] : memref<?x?xf16>
      %k27 = arith.constant 27 : index
      %y27 = math.cbrt %v : f16
      memref.store %y27, %out[%k27, %i] : memref<?x?xf16>
    }
    gpu.return
  }
  // out[k, i] = function k of x[i], in the order of the test's list
  gpu.func @math_bf16(%x: memref<?xbf16>, %out: memref<?x?xbf16>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, aot.grid = [#rows], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xbf16>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xbf16>
      %k0 = arith.constant 0 : index
      %y0 = math.exp %v : bf16
      memref.store %y0, %out[%k0, %i] : memref<?x?xbf16>
      %k1 = arith.constant 1 : index
      %y1 = math.exp2 %v : bf16
      memref.store %y1, %out[%k1, %i] : memref<?x?xbf16>
      %k2 = arith.constant 2 : index
      %y2 = math.expm1 %v : bf16
      memref.store %y2, %out[%k2, %i] : memref<?x?xbf16>
      %k3 = arith.constant 3 : index
      %y3 = math.log %v : bf16
      memref.store %y3, %out[%k3, %i] : memref<?x?xbf16>
      %k4 = arith.constant 4 : index
      %y4 = math.log2 %v : bf16
      memref.store %y4, %out[%k4, %i] : memref<?x?xbf16>
      %k5 = arith.constant 5 : index
      %y5 = math.log10 %v : bf16
      memref.store %y5, %out[%k5, %i] : memref<?x?xbf16>
      %k6 = arith.constant 6 : index
      %y6 = math.log1p %v : bf16
      memref.store %y6, %out[%k6, %i] : memref<?x?xbf16>
      %k7 = arith.constant 7 : index
      %y7 = math.tanh %v : bf16
      memref.store %y7, %out[%k7, %i] : memref<?x?xbf16>
      %k8 = arith.constant 8 : index
      %y8 = math.sin %v : bf16
      memref.store %y8, %out[%k8, %i] : memref<?x?xbf16>
      %k9 = arith.constant 9 : index
      %y9 = math.cos %v : bf16
      memref.store %y9, %out[%k9, %i] : memref<?x?xbf16>
      %k10 = arith.constant 10 : index
      %y10 = math.erf %v : bf16
      memref.store %y10, %out[%k10, %i] : memref<?x?xbf16>
      %k11 = arith.constant 11 : index
      %y11 = math.sqrt %v : bf16
      memref.store %y11, %out[%k11, %i] : memref<?x?xbf16>
      %k12 = arith.constant 12 : index
      %y12 = math.rsqrt %v : bf16
      memref.store %y12, %out[%k12, %i] : memref<?x?xbf16>
      %k13 = arith.constant 13 : index
      %y13 = math.absf %v : bf16
      memref.store %y13, %out[%k13, %i] : memref<?x?xbf16>
      %k14 = arith.constant 14 : index
      %y14 = math.ceil %v : bf16
      memref.store %y14, %out[%k14, %i] : memref<?x?xbf16>
      %k15 = arith.constant 15 : index
      %y15 = math.floor %v : bf16
      memref.store %y15, %out[%k15, %i] : memref<?x?xbf16>
      %k16 = arith.constant 16 : index
      %y16 = math.round %v : bf16
      memref.store %y16, %out[%k16, %i] : memref<?x?xbf16>
      %k17 = arith.constant 17 : index
      %y17 = math.roundeven %v : bf16
      memref.store %y17, %out[%k17, %i] : memref<?x?xbf16>
      %k18 = arith.constant 18 : index
      %y18 = math.trunc %v : bf16
      memref.store %y18, %out[%k18, %i] : memref<?x?xbf16>
      %k19 = arith.constant 19 : index
      %y19 = math.sinh %v : bf16
      memref.store %y19, %out[%k19, %i] : memref<?x?xbf16>
      %k20 = arith.constant 20 : index
      %y20 = math.cosh %v : bf16
      memref.store %y20, %out[%k20, %i] : memref<?x?xbf16>
      %k21 = arith.constant 21 : index
      %y21 = math.asin %v : bf16
      memref.store %y21, %out[%k21, %i] : memref<?x?xbf16>
      %k22 = arith.constant 22 : index
      %y22 = math.acos %v : bf16
      memref.store %y22, %out[%k22, %i] : memref<?x?xbf16>
      %k23 = arith.constant 23 : index
      %y23 = math.atan %v : bf16
      memref.store %y23, %out[%k23, %i] : memref<?x?xbf16>
      %k24 = arith.constant 24 : index
      %y24 = math.asinh %v : bf16
      memref.store %y24, %out[%k24, %i] : memref<?x?xbf16>
      %k25 = arith.constant 25 : index
      %y25 = math.acosh %v : bf16
      memref.store %y25, %out[%k25, %i] : memref<?x?xbf16>
      %k26 = arith.constant 26 : index
      %y26 = math.atanh %v : bf16
      memref.store %y26, %out[%k26, %i] : memref<?x?xbf16>
      %k27 = arith.constant 27 : index
      %y27 = math.cbrt %v : bf16
      memref.store %y27, %out[%k27, %i] : memref<?x?xbf16>
    }
    gpu.return
  }
  // out[k, i] = function k of x[i], in the order of the test's list
  gpu.func @math_f32(%x: memref<?xf32>, %out: memref<?x?xf32>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, aot.grid = [#rows], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xf32>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xf32>
      %k0 = arith.constant 0 : index
      %y0 = math.exp %v : f32
      memref.store %y0, %out[%k0, %i] : memref<?x?xf32>
      %k1 = arith.constant 1 : index
      %y1 = math.exp2 %v : f32
      memref.store %y1, %out[%k1, %i] : memref<?x?xf32>
      %k2 = arith.constant 2 : index
      %y2 = math.expm1 %v : f32
      memref.store %y2, %out[%k2, %i] : memref<?x?xf32>
      %k3 = arith.constant 3 : index
      %y3 = math.log %v : f32
      memref.store %y3, %out[%k3, %i] : memref<?x?xf32>
      %k4 = arith.constant 4 : index
      %y4 = math.log2 %v : f32
      memref.store %y4, %out[%k4, %i] : memref<?x?xf32>
      %k5 = arith.constant 5 : index
      %y5 = math.log10 %v : f32
      memref.store %y5, %out[%k5, %i] : memref<?x?xf32>
      %k6 = arith.constant 6 : index
      %y6 = math.log1p %v : f32
      memref.store %y6, %out[%k6, %i] : memref<?x?xf32>
      %k7 = arith.constant 7 : index
      %y7 = math.tanh %v : f32
      memref.store %y7, %out[%k7, %i] : memref<?x?xf32>
      %k8 = arith.constant 8 : index
      %y8 = math.sin %v : f32
      memref.store %y8, %out[%k8, %i] : memref<?x?xf32>
      %k9 = arith.constant 9 : index
      %y9 = math.cos %v : f32
      memref.store %y9, %out[%k9, %i] : memref<?x?xf32>
      %k10 = arith.constant 10 : index
      %y10 = math.erf %v : f32
      memref.store %y10, %out[%k10, %i] : memref<?x?xf32>
      %k11 = arith.constant 11 : index
      %y11 = math.sqrt %v : f32
      memref.store %y11, %out[%k11, %i] : memref<?x?xf32>
      %k12 = arith.constant 12 : index
      %y12 = math.rsqrt %v : f32
      memref.store %y12, %out[%k12, %i] : memref<?x?xf32>
      %k13 = arith.constant 13 : index
      %y13 = math.absf %v : f32
      memref.store %y13, %out[%k13, %i] : memref<?x?xf32>
      %k14 = arith.constant 14 : index
      %y14 = math.ceil %v : f32
      memref.store %y14, %out[%k14, %i] : memref<?x?xf32>
      %k15 = arith.constant 15 : index
      %y15 = math.floor %v : f32
      memref.store %y15, %out[%k15, %i] : memref<?x?xf32>
      %k16 = arith.constant 16 : index
      %y16 = math.round %v : f32
      memref.store %y16, %out[%k16, %i] : memref<?x?xf32>
      %k17 = arith.constant 17 : index
      %y17 = math.roundeven %v : f32
      memref.store %y17, %out[%k17, %i] : memref<?x?xf32>
      %k18 = arith.constant 18 : index
      %y18 = math.trunc %v : f32
      memref.store %y18, %out[%k18, %i] : memref<?x?xf32>
      %k19 = arith.constant 19 : index
      %y19 = math.sinh %v : f32
      memref.store %y19, %out[%k19, %i] : memref<?x?xf32>
      %k20 = arith.constant 20 : index
      %y20 = math.cosh %v : f32
      memref.store %y20, %out[%k20, %i] : memref<?x?xf32>
      %k21 = arith.constant 21 : index
      %y21 = math.asin %v : f32
      memref.store %y21, %out[%k21, %i] : memref<?x?xf32>
      %k22 = arith.constant 22 : index
      %y22 = math.acos %v : f32
      memref.store %y22, %out[%k22, %i] : memref<?x?xf32>
      %k23 = arith.constant 23 : index
      %y23 = math.atan %v : f32
      memref.store %y23, %out[%k23, %i] : memref<?x?xf32>
      %k24 = arith.constant 24 : index
      %y24 = math.asinh %v : f32
      memref.store %y24, %out[%k24, %i] : memref<?x?xf32>
      %k25 = arith.constant 25 : index
      %y25 = math.acosh %v : f32
      memref.store %y25, %out[%k25, %i] : memref<?x?xf32>
      %k26 = arith.constant 26 : index
      %y26 = math.atanh %v : f32
      memref.store %y26, %out[%k26, %i] : memref<?x?xf32>
      %k27 = arith.constant 27 : index
      %y27 = math.cbrt %v : f32
      memref.store %y27, %out[%k27, %i] : memref<?x?xf32>
    }
    gpu.return
  }
  // out[k, i] = function k of x[i], in the order of the test's list
  gpu.func @math_f64(%x: memref<?xf64>, %out: memref<?x?xf64>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, aot.grid = [#rows], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xf64>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xf64>
      %k0 = arith.constant 0 : index
      %y0 = math.exp %v : f64
      memref.store %y0, %out[%k0, %i] : memref<?x?xf64>
      %k1 = arith.constant 1 : index
      %y1 = math.exp2 %v : f64
      memref.store %y1, %out[%k1, %i] : memref<?x?xf64>
      %k2 = arith.constant 2 : index
      %y2 = math.expm1 %v : f64
      memref.store %y2, %out[%k2, %i] : memref<?x?xf64>
      %k3 = arith.constant 3 : index
      %y3 = math.log %v : f64
      memref.store %y3, %out[%k3, %i] : memref<?x?xf64>
      %k4 = arith.constant 4 : index
      %y4 = math.log2 %v : f64
      memref.store %y4, %out[%k4, %i] : memref<?x?xf64>
      %k5 = arith.constant 5 : index
      %y5 = math.log10 %v : f64
      memref.store %y5, %out[%k5, %i] : memref<?x?xf64>
      %k6 = arith.constant 6 : index
      %y6 = math.log1p %v : f64
      memref.store %y6, %out[%k6, %i] : memref<?x?xf64>
      %k7 = arith.constant 7 : index
      %y7 = math.tanh %v : f64
      memref.store %y7, %out[%k7, %i] : memref<?x?xf64>
      %k8 = arith.constant 8 : index
      %y8 = math.sin %v : f64
      memref.store %y8, %out[%k8, %i] : memref<?x?xf64>
      %k9 = arith.constant 9 : index
      %y9 = math.cos %v : f64
      memref.store %y9, %out[%k9, %i] : memref<?x?xf64>
      %k10 = arith.constant 10 : index
      %y10 = math.erf %v : f64
      memref.store %y10, %out[%k10, %i] : memref<?x?xf64>
      %k11 = arith.constant 11 : index
      %y11 = math.sqrt %v : f64
      memref.store %y11, %out[%k11, %i] : memref<?x?xf64>
      %k12 = arith.constant 12 : index
      %y12 = math.rsqrt %v : f64
      memref.store %y12, %out[%k12, %i] : memref<?x?xf64>
      %k13 = arith.constant 13 : index
      %y13 = math.absf %v : f64
      memref.store %y13, %out[%k13, %i] : memref<?x?xf64>
      %k14 = arith.constant 14 : index
      %y14 = math.ceil %v : f64
      memref.store %y14, %out[%k14, %i] : memref<?x?xf64>
      %k15 = arith.constant 15 : index
      %y15 = math.floor %v : f64
      memref.store %y15, %out[%k15, %i] : memref<?x?xf64>
      %k16 = arith.constant 16 : index
      %y16 = math.round %v : f64
      memref.store %y16, %out[%k16, %i] : memref<?x?xf64>
      %k17 = arith.constant 17 : index
      %y17 = math.roundeven %v : f64
      memref.store %y17, %out[%k17, %i] : memref<?x?xf64>
      %k18 = arith.constant 18 : index
      %y18 = math.trunc %v : f64
      memref.store %y18, %out[%k18, %i] : memref<?x?xf64>
      %k19 = arith.constant 19 : index
      %y19 = math.sinh %v : f64
      memref.store %y19, %out[%k19, %i] : memref<?x?xf64>
      %k20 = arith.constant 20 : index
      %y20 = math.cosh %v : f64
      memref.store %y20, %out[%k20, %i] : memref<?x?xf64>
      %k21 = arith.constant 21 : index
      %y21 = math.asin %v : f64
      memref.store %y21, %out[%k21, %i] : memref<?x?xf64>
      %k22 = arith.constant 22 : index
      %y22 = math.acos %v : f64
      memref.store %y22, %out[%k22, %i] : memref<?x?xf64>
      %k23 = arith.constant 23 : index
      %y23 = math.atan %v : f64
      memref.store %y23, %out[%k23, %i] : memref<?x?xf64>
      %k24 = arith.constant 24 : index
      %y24 = math.asinh %v : f64
      memref.store %y24, %out[%k24, %i] : memref<?x?xf64>
      %k25 = arith.constant 25 : index
      %y25 = math.acosh %v : f64
      memref.store %y25, %out[%k25, %i] : memref<?x?xf64>
      %k26 = arith.constant 26 : index
      %y26 = math.atanh %v : f64
      memref.store %y26, %out[%k26, %i] : memref<?x?xf64>
      %k27 = arith.constant 27 : index
      %y27 = math.cbrt %v : f64
      memref.store %y27, %out[%k27, %i] : memref<?x?xf64>
    }
    gpu.return
  }
  // x[i] = x[i] to the power e[i]
  gpu.func @power_i8(%x: memref<?xi8>, %e: memref<?xi8>)
      kernel attributes {aot.grid = [affine_map<(n, m) -> (n ceildiv 256)>], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xi8>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xi8>
      %p = memref.load %e[%i] : memref<?xi8>
      %y = math.ipowi %v, %p : i8
      memref.store %y, %x[%i] : memref<?xi8>
    }
    gpu.return
  }
  // x[i] = x[i] to the power e[i]
  gpu.func @power_i16(%x: memref<?xi16>, %e: memref<?xi16>)
      kernel attributes {aot.grid = [affine_map<(n, m) -> (n ceildiv 256)>], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xi16>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xi16>
      %p = memref.load %e[%i] : memref<?xi16>
      %y = math.ipowi %v, %p : i16
      memref.store %y, %x[%i] : memref<?xi16>
    }
    gpu.return
  }
  // x[i] = x[i] to the power e[i]
  gpu.func @power_i32(%x: memref<?xi32>, %e: memref<?xi32>)
      kernel attributes {aot.grid = [affine_map<(n, m) -> (n ceildiv 256)>], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xi32>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xi32>
      %p = memref.load %e[%i] : memref<?xi32>
      %y = math.ipowi %v, %p : i32
      memref.store %y, %x[%i] : memref<?xi32>
    }
    gpu.return
  }
  // x[i] = x[i] to the power e[i]
  gpu.func @power_i64(%x: memref<?xi64>, %e: memref<?xi64>)
      kernel attributes {aot.grid = [affine_map<(n, m) -> (n ceildiv 256)>], aot.block = [256]} {
    %c0 = arith.constant 0 : index
    %i = gpu.global_id x
    %n = memref.dim %x, %c0 : memref<?xi64>
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xi64>
      %p = memref.load %e[%i] : memref<?xi64>
      %y = math.ipowi %v, %p : i64
      memref.store %y, %x[%i] : memref<?xi64>
    }
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their add; blocks of 32.
  gpu.func @warp_add_f16(%x: memref<?xf16>, %whole: memref<?xf16>, %clusters: memref<?xf16>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xf16>
    %a = gpu.subgroup_reduce add %v : (f16) -> (f16)
    %b = gpu.subgroup_reduce add %v cluster(size = 8, stride = 2) : (f16) -> (f16)
    memref.store %a, %whole[%i] : memref<?xf16>
    memref.store %b, %clusters[%i] : memref<?xf16>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their maximumf; blocks of 32.
  gpu.func @warp_maximumf_bf16(%x: memref<?xbf16>, %whole: memref<?xbf16>, %clusters: memref<?xbf16>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xbf16>
    %a = gpu.subgroup_reduce maximumf %v : (bf16) -> (bf16)
    %b = gpu.subgroup_reduce maximumf %v cluster(size = 8, stride = 2) : (bf16) -> (bf16)
    memref.store %a, %whole[%i] : memref<?xbf16>
    memref.store %b, %clusters[%i] : memref<?xbf16>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their add; blocks of 32.
  gpu.func @warp_add_f32(%x: memref<?xf32>, %whole: memref<?xf32>, %clusters: memref<?xf32>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xf32>
    %a = gpu.subgroup_reduce add %v : (f32) -> (f32)
    %b = gpu.subgroup_reduce add %v cluster(size = 8, stride = 2) : (f32) -> (f32)
    memref.store %a, %whole[%i] : memref<?xf32>
    memref.store %b, %clusters[%i] : memref<?xf32>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their minnumf; blocks of 32.
  gpu.func @warp_minnumf_f64(%x: memref<?xf64>, %whole: memref<?xf64>, %clusters: memref<?xf64>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xf64>
    %a = gpu.subgroup_reduce minnumf %v : (f64) -> (f64)
    %b = gpu.subgroup_reduce minnumf %v cluster(size = 8, stride = 2) : (f64) -> (f64)
    memref.store %a, %whole[%i] : memref<?xf64>
    memref.store %b, %clusters[%i] : memref<?xf64>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their maxsi; blocks of 32.
  gpu.func @warp_maxsi_i8(%x: memref<?xi8>, %whole: memref<?xi8>, %clusters: memref<?xi8>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xi8>
    %a = gpu.subgroup_reduce maxsi %v : (i8) -> (i8)
    %b = gpu.subgroup_reduce maxsi %v cluster(size = 8, stride = 2) : (i8) -> (i8)
    memref.store %a, %whole[%i] : memref<?xi8>
    memref.store %b, %clusters[%i] : memref<?xi8>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their mul; blocks of 32.
  gpu.func @warp_mul_i16(%x: memref<?xi16>, %whole: memref<?xi16>, %clusters: memref<?xi16>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xi16>
    %a = gpu.subgroup_reduce mul %v : (i16) -> (i16)
    %b = gpu.subgroup_reduce mul %v cluster(size = 8, stride = 2) : (i16) -> (i16)
    memref.store %a, %whole[%i] : memref<?xi16>
    memref.store %b, %clusters[%i] : memref<?xi16>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their xor; blocks of 32.
  gpu.func @warp_xor_i32(%x: memref<?xi32>, %whole: memref<?xi32>, %clusters: memref<?xi32>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xi32>
    %a = gpu.subgroup_reduce xor %v : (i32) -> (i32)
    %b = gpu.subgroup_reduce xor %v cluster(size = 8, stride = 2) : (i32) -> (i32)
    memref.store %a, %whole[%i] : memref<?xi32>
    memref.store %b, %clusters[%i] : memref<?xi32>
    gpu.return
  }
  // Each thread of a warp, and each of a cluster of 8 threads two apart, gets their minui; blocks of 32.
  gpu.func @warp_minui_i64(%x: memref<?xi64>, %whole: memref<?xi64>, %clusters: memref<?xi64>)
      kernel attributes {aot.grid = [affine_map<(n, m, l) -> (n ceildiv 32)>], aot.block = [32]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xi64>
    %a = gpu.subgroup_reduce minui %v : (i64) -> (i64)
    %b = gpu.subgroup_reduce minui %v cluster(size = 8, stride = 2) : (i64) -> (i64)
    memref.store %a, %whole[%i] : memref<?xi64>
    memref.store %b, %clusters[%i] : memref<?xi64>
    gpu.return
  }
  // x[i] = sum over its block of 256 threads
  gpu.func @block_add(%x: memref<?xf32>)
      kernel attributes {known_block_size = array<i32: 256, 1, 1>, aot.grid = [#lines], aot.block = [256]} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xf32>
    %s = gpu.all_reduce add %v {} : (f32) -> (f32)
    memref.store %s, %x[%i] : memref<?xf32>
    gpu.return
  }
  // out[i] = x[i] + x[i + 1] + x[i + 2] (+ x[i + 3] in the second half), zeros past the end; one block of 256
  gpu.func @windows(%x: memref<?xf32>, %out: memref<?xf32>)
      kernel attributes {aot.grid = [1], aot.block = [256]} {
    %c3 = arith.constant 3 : index
    %c128 = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %i = gpu.thread_id x
    %mask = vector.create_mask %c3 : vector<4xi1>
    %some = vector.mask %mask { vector.transfer_read %x[%i], %zero : memref<?xf32>, vector<4xf32> } : vector<4xi1> -> vector<4xf32>
    %all = vector.transfer_read %x[%i], %zero : memref<?xf32>, vector<4xf32>
    %late = arith.cmpi uge, %i, %c128 : index
    %v = arith.select %late, %all, %some : vector<4xf32>
    %s = vector.reduction <add>, %v : vector<4xf32> into f32
    memref.store %s, %out[%i] : memref<?xf32>
    gpu.return
  }
  // out = x[0] + x[2] + 100 + x[1], in every element of a block of 32
  gpu.func @gather(%x: memref<?xf32>, %out: memref<?xf32>) kernel attributes {aot.grid = [1], aot.block = [32]} {
    %c0 = arith.constant 0 : index
    %i = gpu.thread_id x
    %places = arith.constant dense<[0, 2, 4, 1]> : vector<4xi32>
    %taken = arith.constant dense<[true, true, false, true]> : vector<4xi1>
    %else = arith.constant dense<100.0> : vector<4xf32>
    %v = vector.gather %x[%c0][%places], %taken, %else
        : memref<?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
    %s = vector.reduction <add>, %v : vector<4xf32> into f32
    memref.store %s, %out[%i] : memref<?xf32>
    gpu.return
  }
  // product = x x, transposed = x^T, sums of rows; in vectors of two dimensions, by one thread
  gpu.func @tile(%x: memref<4x4xf32>, %product: memref<4x4xf32>, %transposed: memref<4x4xf32>, %sums: memref<4xf32>)
      kernel attributes {aot.grid = [1], aot.block = [1]} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant dense<0.0> : vector<4x4xf32>
    %none_row = arith.constant dense<0.0> : vector<4xf32>
    %v = vector.load %x[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    %p = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                           affine_map<(m, n, k) -> (m, n)>],
                          iterator_types = ["parallel", "parallel", "reduction"]}
        %v, %v, %none : vector<4x4xf32>, vector<4x4xf32> into vector<4x4xf32>
    vector.store %p, %product[%c0, %c0] : memref<4x4xf32>, vector<4x4xf32>
    %t = vector.transfer_read %x[%c0, %c0], %zero
        {permutation_map = affine_map<(i, j) -> (j, i)>, in_bounds = [true, true]} : memref<4x4xf32>, vector<4x4xf32>
    vector.transfer_write %t, %transposed[%c0, %c0] {in_bounds = [true, true]} : vector<4x4xf32>, memref<4x4xf32>
    %r = vector.multi_reduction <add>, %v, %none_row [1] : vector<4x4xf32> to vector<4xf32>
    vector.store %r, %sums[%c0] : memref<4xf32>, vector<4xf32>
    gpu.return
  }
  // Two attributions whose sizes are no multiples of 16: the second one is copied into 16 bytes at a time
  gpu.func @odd_shared(%x: memref<128xf32>, %out: memref<128xf32>)
      workgroup(%pad: memref<5xi8, #workgroup>, %tile: memref<128xf32, #workgroup>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>, aot.grid = [1], aot.block = [32]} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0 : i8
    %i = gpu.thread_id x
    %first = arith.cmpi eq, %i, %c0 : index
    scf.if %first { memref.store %zero, %pad[%i] : memref<5xi8, #workgroup> }
    %at = arith.muli %i, %c4 : index
    %copy = nvgpu.device_async_copy %x[%at], %tile[%at], 4 {bypassL1} : memref<128xf32> to memref<128xf32, #workgroup>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group {numGroups = 0 : i32}
    gpu.barrier
    %c127 = arith.constant 127 : index
    %p = memref.load %pad[%c0] : memref<5xi8, #workgroup>
    %pf = arith.sitofp %p : i8 to f32
    %other = arith.subi %c127, %at : index
    %v = memref.load %tile[%other] : memref<128xf32, #workgroup>
    %s = arith.addf %v, %pf : f32
    memref.store %s, %out[%at] : memref<128xf32>
    gpu.return
  }
}
