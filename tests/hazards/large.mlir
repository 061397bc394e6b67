// More than 2^31 elements, and shapes whose grids pass 65535 blocks in y or z.
func.func @increment_1d(%x: memref<?xi8>) {
  %one = arith.constant 1 : i8
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : memref<?xi8>) {
  ^bb0(%v: i8):
    %s = arith.addi %v, %one : i8
    linalg.yield %s : i8
  }
  return
}
func.func @increment_2d(%x: memref<?x?xi8>) {
  %one = arith.constant 1 : i8
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%x : memref<?x?xi8>) {
  ^bb0(%v: i8):
    %s = arith.addi %v, %one : i8
    linalg.yield %s : i8
  }
  return
}
func.func @increment_3d(%x: memref<?x?x?xi8>) {
  %one = arith.constant 1 : i8
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%x : memref<?x?x?xi8>) {
  ^bb0(%v: i8):
    %s = arith.addi %v, %one : i8
    linalg.yield %s : i8
  }
  return
}
