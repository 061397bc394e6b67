// A buffer between two kernels holds vectors: a type that no caller could pass, and none does.

// out[i] = x[4 i] + x[4 i + 1] + x[4 i + 2] + x[4 i + 3]
func.func @sum_by_four(%x: memref<32xf32>, %out: memref<8xf32>) {
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %quads = gpu.alloc () : memref<8xvector<4xf32>>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {
    %c4 = arith.constant 4 : index
    %at = arith.muli %tx, %c4 : index
    %v = vector.load %x[%at] : memref<32xf32>, vector<4xf32>
    memref.store %v, %quads[%tx] : memref<8xvector<4xf32>>
    gpu.terminator
  }
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {
    %v = memref.load %quads[%tx] : memref<8xvector<4xf32>>
    %s = vector.reduction <add>, %v : vector<4xf32> into f32
    memref.store %s, %out[%tx] : memref<8xf32>
    gpu.terminator
  }
  gpu.dealloc %quads : memref<8xvector<4xf32>>
  return
}
