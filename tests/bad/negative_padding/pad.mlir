// Padding takes nothing away.
func.func @f(%x: tensor<8x?xf32>, %p: f32) -> tensor<7x?xf32> {
  %less = arith.constant -2 : index
  %r = tensor.pad %x low[0, %less] high[-1, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %p : f32
  } : tensor<8x?xf32> to tensor<7x?xf32>
  return %r : tensor<7x?xf32>
}
