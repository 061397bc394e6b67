func.func @f(%x: index, %n: index) -> index {
  %r = affine.apply affine_map<(i) -> (i floordiv 0)>(%x)
  return %r : index
}
