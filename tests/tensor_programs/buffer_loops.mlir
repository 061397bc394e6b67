func.func @red(%a: memref<100xf32>) -> f32 {
  %r = affine.parallel (%i) = (0) to (100) reduce ("addf") -> f32 {
    %x = affine.load %a[%i] : memref<100xf32>
    affine.yield %x : f32
  }
  return %r : f32
}
func.func @par(%a: memref<10x20xf32>, %b: memref<20xf32>) {
  affine.parallel (%i, %j) = (0, 0) to (10, 20) {
    %x = affine.load %a[%i, %j] : memref<10x20xf32>
    %y = affine.load %b[%j] : memref<20xf32>
    %z = arith.addf %x, %y : f32
    affine.store %z, %a[%i, %j] : memref<10x20xf32>
  }
  return
}
func.func @cond(%a: memref<10x20xf32>) {
  %c = arith.constant 1.0 : f32
  affine.for %i = 0 to 10 {
    affine.for %j = 0 to 20 {
      affine.if affine_set<(d0, d1) : (d0 - d1 >= 0)>(%i, %j) { affine.store %c, %a[%i, %j] : memref<10x20xf32> }
    }
  }
  return
}
func.func @scratch(%a: memref<10x20xf32>) {
  affine.for %i = 0 to 10 {
    %t = memref.alloca() : memref<20xf32>
    affine.for %j = 0 to 20 { %x = affine.load %a[%i, %j] : memref<10x20xf32> affine.store %x, %t[%j] : memref<20xf32> }
    affine.for %j = 0 to 20 { %x = affine.load %t[19 - %j] : memref<20xf32> affine.store %x, %a[%i, %j] : memref<10x20xf32> }
  }
  return
}
func.func @scratch_heap(%a: memref<10x20xf32>) {
  affine.for %i = 0 to 10 {
    %t = memref.alloc() : memref<20xf32>
    affine.for %j = 0 to 20 { %x = affine.load %a[%i, %j] : memref<10x20xf32> affine.store %x, %t[%j] : memref<20xf32> }
    affine.for %j = 0 to 20 { %x = affine.load %t[19 - %j] : memref<20xf32> affine.store %x, %a[%i, %j] : memref<10x20xf32> }
    memref.dealloc %t : memref<20xf32>
  }
  return
}
func.func @stencil(%a: memref<?xf32>, %steps: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  scf.for %s = %c0 to %steps step %c1 {
    memref.copy %a, %t : memref<?xf32> to memref<?xf32>
    affine.for %i = 1 to affine_map<(d0) -> (d0 - 1)>(%n) {
      %x = affine.load %t[%i - 1] : memref<?xf32>
      %y = affine.load %t[%i + 1] : memref<?xf32>
      %z = arith.addf %x, %y : f32
      affine.store %z, %a[%i] : memref<?xf32>
    }
  }
  memref.dealloc %t : memref<?xf32>
  return
}
func.func @atomic(%a: memref<?xi32>, %h: memref<8xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %a, %c0 : memref<?xi32>
  %one = arith.constant 1 : i32
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %x = memref.load %a[%i] : memref<?xi32>
    %k = arith.index_cast %x : i32 to index
    %o = memref.atomic_rmw addi %one, %h[%k] : (i32, memref<8xi32>) -> i32
    scf.reduce
  }
  return
}
func.func @realloc(%n: index, %m: index) -> memref<?xf32> {
  %c = arith.constant 2.0 : f32
  %a = memref.alloc(%n) : memref<?xf32>
  linalg.fill ins(%c : f32) outs(%a : memref<?xf32>)
  %b = memref.realloc %a(%m) : memref<?xf32> to memref<?xf32>
  return %b : memref<?xf32>
}
