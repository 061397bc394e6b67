// The launch's body needs a function that exists nowhere on the device.
func.func private @on_the_host(f32) -> f32
func.func @f(%out: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%a, %b, %c) in (%g = %c1, %h = %c1, %i = %c1)
             threads(%d, %e, %f) in (%j = %c1, %k = %c1, %l = %c1) {
    %v = arith.constant 1.0 : f32
    %w = func.call @on_the_host(%v) : (f32) -> f32
    memref.store %w, %out[%c0] : memref<1xf32>
    gpu.terminator
  }
  return
}
