module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %adds = transform.structured.match ops{["arith.addf"]} in %root : (!transform.any_op) -> !transform.any_op
    %loops = transform.cast %adds : !transform.any_op to !transform.op<"scf.for">
    transform.yield
  }
}
