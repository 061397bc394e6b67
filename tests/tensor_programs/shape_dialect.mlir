func.func @s(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %sa = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>
  %sb = shape.shape_of %b : tensor<?xf32> -> tensor<1xindex>
  %w = shape.cstr_broadcastable %sa, %sb : tensor<1xindex>, tensor<1xindex>
  %r = shape.assuming %w -> tensor<?xf32> {
    %x = arith.addf %a, %b : tensor<?xf32>
    shape.assuming_yield %x : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
