"""Sources as other tools leave them: `python ready_sources.py FOLDER` (needs MLIR and ptxas, as `aot build` does).

In: two examples. Out: in FOLDER, ``ready_cubin``, ``ready_ptx`` and ``ready_fatbin`` (gpu.binary ops with
compiled code for sm_90 inside), ``bytecode.mlirbc``, and ``marked.mlir`` (kernels that are plain
llvm.func ops without a gpu.module), named ``ready_kernels`` by an ``aot.toml``.

>>> main("ready")   # doctest: +SKIP
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
EXAMPLES = ROOT / "examples" / "kernels"
FORMATS = {"ready_cubin": "bin", "ready_ptx": "isa", "ready_fatbin": "fatbin"}
SETTINGS = 'edition = 1\n\n[package]\nname = "ready_kernels"\n\n[build]\narchs = "sm_90"\n'
MARKED = """llvm.func @add_one(%x: !llvm.ptr, %n: i32) attributes {gpu.kernel, nvvm.kernel} {
  %one = llvm.mlir.constant(1.0 : f32) : f32
  %thread = nvvm.read.ptx.sreg.tid.x : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %threads = nvvm.read.ptx.sreg.ntid.x : i32
  %first = llvm.mul %block, %threads : i32
  %i = llvm.add %first, %thread : i32
  %inside = llvm.icmp "slt" %i, %n : i32
  llvm.cond_br %inside, ^work, ^done
^work:
  %at = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %v = llvm.load %at : !llvm.ptr -> f32
  %s = llvm.fadd %v, %one : f32
  llvm.store %s, %at : f32, !llvm.ptr
  llvm.br ^done
^done:
  llvm.return
}
"""


def main(folder: str) -> None:
    from aot import mlir
    from aot.tools import toolchain

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    toolkit = toolchain.find().ptxas.parent.parent
    for name, form in FORMATS.items():
        passes = [
            "nvvm-attach-target{chip=sm_90 features=+ptx80 O=3}",
            "gpu.module(convert-gpu-to-nvvm)",
            "gpu.module(reconcile-unrealized-casts)",
            f"gpu-module-to-binary{{format={form} toolkit={toolkit}}}",
        ]
        with mlir.context() as context:
            module = mlir.parse((EXAMPLES / "launch_func.mlir").read_bytes(), "launch_func.mlir", context)
            mlir.run_passes(module, passes, "compiling a ready binary")
            (target / f"{name}.mlir").write_text(str(module))
    with mlir.context() as context, (target / "bytecode.mlirbc").open("wb") as file:
        module = mlir.parse((EXAMPLES / "vector_add.mlir").read_bytes(), "vector_add.mlir", context)
        module.operation.write_bytecode(file)
    (target / "marked.mlir").write_text(MARKED)
    (target / "aot.toml").write_text(SETTINGS)


if __name__ == "__main__":
    main(sys.argv[1])
