func.func @unpack(%A: tensor<?x3x?x1xi32>, %tile_size: index) -> tensor<7x3xi32> {
  %A_unpack_empty = tensor.empty() : tensor<7x3xi32>
  %A_unpack = linalg.unpack %A inner_dims_pos = [0, 1] inner_tiles = [%tile_size, 1] into %A_unpack_empty : tensor<?x3x?x1xi32> -> tensor<7x3xi32>
  return %A_unpack : tensor<7x3xi32>
}
func.func @pack(%A: tensor<7x16xi32>, %tile_size: index) -> tensor<?x16x?x1xi32> {
  %c1 = arith.constant 1 : index
  %pad_val = arith.constant 123 : i32
  %A_pack_empty = tensor.empty(%c1, %tile_size) : tensor<?x16x?x1xi32>
  %A_pack = linalg.pack %A padding_value(%pad_val : i32) inner_dims_pos = [0, 1] inner_tiles = [%tile_size, 1] into %A_pack_empty : tensor<7x16xi32> -> tensor<?x16x?x1xi32>
  return %A_pack : tensor<?x16x?x1xi32>
}
