// ptxas, not MLIR, finds what is wrong in inline assembly.
gpu.module @m {
  gpu.func @k() kernel {
    llvm.inline_asm has_side_effects "no.such.instruction;", "" : () -> ()
    gpu.return
  }
}
