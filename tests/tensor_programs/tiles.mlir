func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = scf.forall (%i, %j) = (0, 0) to (%m, %n) step (32, 32) shared_outs(%s = %e) -> (tensor<?x?xf32>) {
    %h = affine.min affine_map<(d0)[s0] -> (32, s0 - d0)>(%i)[%m]
    %w = affine.min affine_map<(d0)[s0] -> (32, s0 - d0)>(%j)[%n]
    %a = tensor.extract_slice %x[%i, %j] [%h, %w] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
    %t = tensor.empty(%h, %w) : tensor<?x?xf32>
    %b = linalg.exp ins(%a : tensor<?x?xf32>) outs(%t : tensor<?x?xf32>) -> tensor<?x?xf32>
    %t2 = tensor.empty(%w, %h) : tensor<?x?xf32>
    %tr = linalg.transpose ins(%b : tensor<?x?xf32>) outs(%t2 : tensor<?x?xf32>) permutation = [1, 0]
    %t3 = tensor.empty(%h, %w) : tensor<?x?xf32>
    %tt = linalg.transpose ins(%tr : tensor<?x?xf32>) outs(%t3 : tensor<?x?xf32>) permutation = [1, 0]
    scf.forall.in_parallel { tensor.parallel_insert_slice %tt into %s[%i, %j] [%h, %w] [1, 1] : tensor<?x?xf32> into tensor<?x?xf32> }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<?x?xf32>
}
func.func @sm(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%m) : tensor<?x64xf32>
  %r = scf.forall (%i) = (0) to (%m) step (16) shared_outs(%s = %e) -> (tensor<?x64xf32>) {
    %h = affine.min affine_map<(d0)[s0] -> (16, s0 - d0)>(%i)[%m]
    %a = tensor.extract_slice %x[%i, 0] [%h, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
    %t = tensor.empty(%h) : tensor<?x64xf32>
    %b = linalg.softmax dimension(1) ins(%a : tensor<?x64xf32>) outs(%t : tensor<?x64xf32>) -> tensor<?x64xf32>
    scf.forall.in_parallel { tensor.parallel_insert_slice %b into %s[%i, 0] [%h, 64] [1, 1] : tensor<?x64xf32> into tensor<?x64xf32> }
  }
  return %r : tensor<?x64xf32>
}
