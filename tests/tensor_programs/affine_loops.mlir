func.func @mm(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %a, %c0 : memref<?x?xf32>
  %n = memref.dim %b, %c1 : memref<?x?xf32>
  %k = memref.dim %a, %c1 : memref<?x?xf32>
  affine.for %i = 0 to %m {
    affine.for %j = 0 to %n {
      affine.for %l = 0 to %k {
        %x = affine.load %a[%i, %l] : memref<?x?xf32>
        %y = affine.load %b[%l, %j] : memref<?x?xf32>
        %z = affine.load %c[%i, %j] : memref<?x?xf32>
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %p, %z : f32
        affine.store %s, %c[%i, %j] : memref<?x?xf32>
      }
    }
  }
  return
}
func.func @rowsum(%a: memref<100x200xf32>, %o: memref<100xf32>) {
  %z = arith.constant 0.0 : f32
  affine.for %i = 0 to 100 {
    %s = affine.for %j = 0 to 200 iter_args(%acc = %z) -> f32 {
      %x = affine.load %a[%i, %j] : memref<100x200xf32>
      %t = arith.addf %acc, %x : f32
      affine.yield %t : f32
    }
    affine.store %s, %o[%i] : memref<100xf32>
  }
  return
}
func.func @total(%a: memref<?xf32>, %o: memref<f32>) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %n = memref.dim %a, %c0 : memref<?xf32>
  affine.store %z, %o[] : memref<f32>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xf32>
    %y = affine.load %o[] : memref<f32>
    %s = arith.addf %x, %y : f32
    affine.store %s, %o[] : memref<f32>
  }
  return
}
func.func @tri(%a: memref<16x16xf32>) {
  %z = arith.constant 0.0 : f32
  affine.for %i = 0 to 16 {
    affine.for %j = affine_map<(d0) -> (d0)>(%i) to 16 {
      affine.store %z, %a[%i, %j] : memref<16x16xf32>
    }
  }
  return
}
func.func @prefix(%a: memref<16xf32>) {
  affine.for %i = 1 to 16 {
    %x = affine.load %a[%i - 1] : memref<16xf32>
    %y = affine.load %a[%i] : memref<16xf32>
    %s = arith.addf %x, %y : f32
    affine.store %s, %a[%i] : memref<16xf32>
  }
  return
}
func.func @carried(%x: tensor<?xf32>, %n: index) -> (f32, tensor<?xf32>) {
  %one = arith.constant 1.0 : f32
  %z = arith.constant 0.0 : f32
  %s, %r = affine.for %i = max affine_map<()[n] -> (0, n - 4)>()[%n] to min affine_map<()[n] -> (n, 4)>()[%n] step 2
      iter_args(%q = %z, %a = %x) -> (f32, tensor<?xf32>) {
    %p, %b = affine.for %j = affine_map<(i) -> (i)>(%i) to 5 iter_args(%u = %q, %t = %a) -> (f32, tensor<?xf32>) {
      %k = affine.apply affine_map<(i, j) -> (j - i + 1)>(%i, %j)
      %v = tensor.extract %t[%k] : tensor<?xf32>
      %w = arith.addf %v, %one : f32
      %m = arith.addf %u, %v : f32
      %o = tensor.insert %w into %t[%k] : tensor<?xf32>
      affine.yield %m, %o : f32, tensor<?xf32>
    }
    affine.yield %p, %b : f32, tensor<?xf32>
  }
  return %s, %r : f32, tensor<?xf32>
}
