func.func @transposed(%a: memref<40x40xf32>, %c: memref<40x40xf32>) {
  %b = memref.alloc() : memref<40x40xf32>
  linalg.exp ins(%a : memref<40x40xf32>) outs(%b : memref<40x40xf32>)
  linalg.transpose ins(%b : memref<40x40xf32>) outs(%c : memref<40x40xf32>) permutation = [1, 0]
  return
}
func.func @anti(%a: memref<40x40xf32>, %c: memref<40x40xf32>) {
  %b = memref.alloc() : memref<40x40xf32>
  linalg.exp ins(%c : memref<40x40xf32>) outs(%a : memref<40x40xf32>)
  linalg.transpose ins(%a : memref<40x40xf32>) outs(%b : memref<40x40xf32>) permutation = [1, 0]
  linalg.negf ins(%b : memref<40x40xf32>) outs(%a : memref<40x40xf32>)
  return
}
func.func @shifted(%c: memref<40xf32>) {
  %b = memref.alloc() : memref<41xf32>
  %z = arith.constant 5.0 : f32
  linalg.fill ins(%z : f32) outs(%b : memref<41xf32>)
  %lo = memref.subview %b[0] [40] [1] : memref<41xf32> to memref<40xf32, strided<[1]>>
  %hi = memref.subview %b[1] [40] [1] : memref<41xf32> to memref<40xf32, strided<[1], offset: 1>>
  linalg.exp ins(%c : memref<40xf32>) outs(%lo : memref<40xf32, strided<[1]>>)
  linalg.negf ins(%hi : memref<40xf32, strided<[1], offset: 1>>) outs(%c : memref<40xf32>)
  return
}
func.func @shifted2(%c: memref<40xf32>) {
  %b = memref.alloc() : memref<41xf32>
  %z = arith.constant 5.0 : f32
  linalg.fill ins(%z : f32) outs(%b : memref<41xf32>)
  %lo = memref.subview %b[0] [40] [1] : memref<41xf32> to memref<40xf32, strided<[1]>>
  %hi = memref.subview %b[1] [40] [1] : memref<41xf32> to memref<40xf32, strided<[1], offset: 1>>
  linalg.exp ins(%c : memref<40xf32>) outs(%hi : memref<40xf32, strided<[1], offset: 1>>)
  linalg.negf ins(%lo : memref<40xf32, strided<[1]>>) outs(%c : memref<40xf32>)
  return
}
func.func @rowstat(%x: tensor<40x40xf32>) -> tensor<40x40xf32> {
  %z = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%z : f32) outs(%e1 : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<40x40xf32>) outs(%f : tensor<40xf32>) dimensions = [1]
  %t = linalg.reduce { arith.addf } ins(%x : tensor<40x40xf32>) outs(%f : tensor<40xf32>) dimensions = [0]
  %e = tensor.empty() : tensor<40x40xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i)>, affine_map<(i,j)->(j)>, affine_map<(i,j)->(i)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]} ins(%x, %s, %s, %t : tensor<40x40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
    %p = arith.addf %a, %b : f32
    %q = arith.subf %p, %c : f32
    %w = arith.mulf %q, %d : f32
    linalg.yield %w : f32
  } -> tensor<40x40xf32>
  return %r : tensor<40x40xf32>
}
func.func @scalarcell(%x: tensor<40xf32>) -> tensor<40xf32> {
  %z = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<40xf32>) outs(%f : tensor<f32>) dimensions = [0]
  %e = tensor.empty() : tensor<40xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->()>, affine_map<(i)->(i)>], iterator_types = ["parallel"]} ins(%x, %s : tensor<40xf32>, tensor<f32>) outs(%e : tensor<40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.divf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<40xf32>
  %t = linalg.reduce { arith.maximumf } ins(%r : tensor<40xf32>) outs(%f : tensor<f32>) dimensions = [0]
  %q = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->()>, affine_map<(i)->(i)>], iterator_types = ["parallel"]} ins(%r, %t : tensor<40xf32>, tensor<f32>) outs(%e : tensor<40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.subf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<40xf32>
  return %q : tensor<40xf32>
}
func.func @refs(%a: memref<?xf32>, %b: memref<?xf32>) {
  linalg.exp ins(%a : memref<?xf32>) outs(%b : memref<?xf32>)
  linalg.negf ins(%b : memref<?xf32>) outs(%a : memref<?xf32>)
  return
}
func.func @iter_swap(%a: tensor<40x40xf32>, %n: index) -> tensor<40x40xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %a) -> tensor<40x40xf32> {
    %e = tensor.empty() : tensor<40x40xf32>
    %t = linalg.transpose ins(%y : tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) permutation = [1, 0]
    %s = linalg.add ins(%t, %y : tensor<40x40xf32>, tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) -> tensor<40x40xf32>
    %u = linalg.transpose ins(%s : tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) permutation = [1, 0]
    %v = linalg.sub ins(%u, %a : tensor<40x40xf32>, tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) -> tensor<40x40xf32>
    scf.yield %v : tensor<40x40xf32>
  }
  return %r : tensor<40x40xf32>
}
