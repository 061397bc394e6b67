func.func @f(%x: index, %n: index) -> index {
  %zero = arith.subi %n, %n : index
  %s = affine.apply affine_map<(i)[s] -> (i mod s)>(%x)[%zero]
  return %s : index
}
