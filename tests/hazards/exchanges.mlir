// Threads exchange 32 or 64 bits: what is narrower is extended, what is wider goes in parts. One block of 256 threads.
func.func @add_f16(%x: memref<256xf16>, %y: memref<256xf16>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xf16>
    %r = gpu.all_reduce add %v uniform {} : (f16) -> f16
    memref.store %r, %y[%tx] : memref<256xf16>
    gpu.terminator
  }
  return
}
func.func @minsi_i8(%x: memref<256xi8>, %y: memref<256xi8>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xi8>
    %r = gpu.all_reduce minsi %v uniform {} : (i8) -> i8
    memref.store %r, %y[%tx] : memref<256xi8>
    gpu.terminator
  }
  return
}
func.func @maxui_i8(%x: memref<256xi8>, %y: memref<256xi8>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xi8>
    %r = gpu.all_reduce maxui %v uniform {} : (i8) -> i8
    memref.store %r, %y[%tx] : memref<256xi8>
    gpu.terminator
  }
  return
}
func.func @xor_i1(%x: memref<256xi1>, %y: memref<256xi1>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xi1>
    %r = gpu.all_reduce xor %v uniform {} : (i1) -> i1
    memref.store %r, %y[%tx] : memref<256xi1>
    gpu.terminator
  }
  return
}
func.func @maxsi_i16(%x: memref<256xi16>, %y: memref<256xi16>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xi16>
    %r = gpu.all_reduce maxsi %v uniform {} : (i16) -> i16
    memref.store %r, %y[%tx] : memref<256xi16>
    gpu.terminator
  }
  return
}

// Neighbours change places, as multiples of 2^66 + 1.
func.func @neighbours(%x: memref<256xi32>, %y: memref<256xi32>) {
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %n, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<256xi32>
    %e = arith.extsi %v : i32 to i128
    %factor = arith.constant 73786976294838206465 : i128
    %product = arith.muli %e, %factor : i128
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %there, %valid = gpu.shuffle xor %product, %one, %width : i128
    %quotient = arith.divsi %there, %factor : i128
    %r = arith.trunci %quotient : i128 to i32
    memref.store %r, %y[%tx] : memref<256xi32>
    gpu.terminator
  }
  return
}

// A 16th of a sum that 64 bits do not hold.
func.func @sixteenth(%x: tensor<?xi64>) -> tensor<i64> {
  %zero = arith.constant 0 : i128
  %empty = tensor.empty() : tensor<i128>
  %start = linalg.fill ins(%zero : i128) outs(%empty : tensor<i128>) -> tensor<i128>
  %wide = arith.extsi %x : tensor<?xi64> to tensor<?xi128>
  %sum = linalg.reduce { arith.addi } ins(%wide : tensor<?xi128>) outs(%start : tensor<i128>) dimensions = [0]
  %bits = arith.constant dense<4> : tensor<i128>
  %part = arith.shrsi %sum, %bits : tensor<i128>
  %r = arith.trunci %part : tensor<i128> to tensor<i64>
  return %r : tensor<i64>
}
