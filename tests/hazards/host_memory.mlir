// Launch-level host memory: memref.alloc is the host's, copied with gpu.memcpy and read by host code after a wait;
// and calls of the runtime's print functions, whose declarations are private.
memref.global "private" constant @weights : memref<4xf32> = dense<[1.0, 10.0, 100.0, 1000.0]>
func.func private @printMemrefF32(memref<*xf32>)

// sum(x[i] * weights[i]), by the host, from a copy of x that a kernel has scaled.
func.func @weighted_sum(%x: memref<4xf32>, %scale: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %host = memref.alloc() : memref<4xf32>
  %t0 = gpu.wait async
  %device, %t1 = gpu.alloc async [%t0] () : memref<4xf32>
  %t2 = gpu.launch async [%t1] blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
    %v = memref.load %x[%tx] : memref<4xf32>
    %s = arith.mulf %v, %scale : f32
    memref.store %s, %device[%tx] : memref<4xf32>
    gpu.terminator
  }
  %t3 = gpu.memcpy async [%t2] %host, %device : memref<4xf32>, memref<4xf32>
  %t4 = gpu.dealloc async [%t3] %device : memref<4xf32>
  gpu.wait [%t4]
  %weights = memref.get_global @weights : memref<4xf32>
  %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> f32 {
    %v = memref.load %host[%i] : memref<4xf32>
    %w = memref.load %weights[%i] : memref<4xf32>
    %p = arith.mulf %v, %w : f32
    %s = arith.addf %acc, %p : f32
    scf.yield %s : f32
  }
  memref.dealloc %host : memref<4xf32>
  return %sum : f32
}

// Prints 0 1 2, written by a kernel into registered host memory.
func.func @print_registered() {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %host = memref.alloc() : memref<3xf32>
  %any = memref.cast %host : memref<3xf32> to memref<*xf32>
  gpu.host_register %any : memref<*xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c3, %sy = %c1, %sz = %c1) {
    %t = arith.index_cast %tx : index to i32
    %f = arith.sitofp %t : i32 to f32
    memref.store %f, %host[%tx] : memref<3xf32>
    gpu.terminator
  }
  func.call @printMemrefF32(%any) : (memref<*xf32>) -> ()
  gpu.host_unregister %any : memref<*xf32>
  memref.dealloc %host : memref<3xf32>
  return
}
