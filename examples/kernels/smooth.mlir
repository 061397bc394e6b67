// Launch level: several launches in a host loop, a scratch buffer, and a branch. Everything goes to the caller's stream.

// out = x smoothed 2 * steps times with the weights 1/4, 1/2, 1/4 (edges repeat); negated when `negate` is true
func.func @smooth(%x: memref<?xf32>, %out: memref<?xf32>, %steps: index, %negate: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %threads = arith.constant 256 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %blocks = arith.ceildivui %n, %threads : index
  %scratch = gpu.alloc (%n) : memref<?xf32>

  // out = x
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1) {
    %first = arith.muli %bx, %threads : index
    %i = arith.addi %first, %tx : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %v = memref.load %x[%i] : memref<?xf32>
      memref.store %v, %out[%i] : memref<?xf32>
    }
    gpu.terminator
  }
  scf.for %step = %c0 to %steps step %c1 {
    func.call @smooth_once(%out, %scratch) : (memref<?xf32>, memref<?xf32>) -> ()
    func.call @smooth_once(%scratch, %out) : (memref<?xf32>, memref<?xf32>) -> ()
  }
  scf.if %negate {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1) {
      %first = arith.muli %bx, %threads : index
      %i = arith.addi %first, %tx : index
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %v = memref.load %out[%i] : memref<?xf32>
        %minus = arith.negf %v : f32
        memref.store %minus, %out[%i] : memref<?xf32>
      }
      gpu.terminator
    }
  }
  gpu.dealloc %scratch : memref<?xf32>
  return
}

func.func private @smooth_once(%from: memref<?xf32>, %to: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %threads = arith.constant 256 : index
  %n = memref.dim %from, %c0 : memref<?xf32>
  %last = arith.subi %n, %c1 : index
  %blocks = arith.ceildivui %n, %threads : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %blocks, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %c1, %sz = %c1) {
    %quarter = arith.constant 0.25 : f32
    %half = arith.constant 0.5 : f32
    %first = arith.muli %bx, %threads : index
    %i = arith.addi %first, %tx : index
    %inside = arith.cmpi ult, %i, %n : index
    scf.if %inside {
      %before = arith.subi %i, %c1 : index
      %after = arith.addi %i, %c1 : index
      %left = arith.maxsi %before, %c0 : index
      %right = arith.minsi %after, %last : index
      %a = memref.load %from[%left] : memref<?xf32>
      %b = memref.load %from[%i] : memref<?xf32>
      %c = memref.load %from[%right] : memref<?xf32>
      %ac = arith.addf %a, %c : f32
      %sides = arith.mulf %ac, %quarter : f32
      %middle = arith.mulf %b, %half : f32
      %s = arith.addf %sides, %middle : f32
      memref.store %s, %to[%i] : memref<?xf32>
    }
    gpu.terminator
  }
  return
}
