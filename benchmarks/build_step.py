"""One step of the shell loop in ``benchmarks/build.py``, for which PyPI has no program: mlir-opt and mlir-translate.

    python benchmarks/build_step.py opt sm_80 SOURCE.mlir LOWERED.mlir
    python benchmarks/build_step.py translate sm_80 LOWERED.mlir OUT       (OUT.0.bc, one file per gpu.module)
    python benchmarks/build_step.py nothing

The steps do what the programs would do, with upstream's passes alone. ``nothing`` only imports the bindings: what
Python and the import take is taken off, since the programs would not need it.
"""

from __future__ import annotations

import sys

from mlir import ir
from mlir.dialects import gpu
from mlir.passmanager import PassManager

OPT = (
    "linalg-generalize-named-ops,linalg-fuse-elementwise-ops,"
    "one-shot-bufferize{{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map}},"
    "canonicalize,cse,"
    "func.func(convert-linalg-to-parallel-loops,"
    "scf-parallel-loop-tiling{{parallel-loop-tile-sizes=16,16 no-min-max-bounds=true}},"
    "gpu-map-parallel-loops,convert-parallel-loops-to-gpu),"
    "lower-affine,canonicalize,cse,gpu-kernel-outlining,nvvm-attach-target{{chip={chip} O=3}},"
    "gpu.module(lower-affine,convert-scf-to-cf,expand-strided-metadata,lower-affine,convert-gpu-to-nvvm,"
    "convert-index-to-llvm,reconcile-unrealized-casts,canonicalize,cse)"
)


def main(step: str, *words: str) -> None:
    """Does a step."""
    if step == "nothing":
        return
    chip, given, made = words
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        context.load_all_available_dialects()
        with open(given, "rb") as file:
            module = ir.Module.parse(file.read())
        if step == "opt":
            PassManager.parse(f"builtin.module({OPT.format(chip=chip)})").run(module.operation)
            write(made, str(module).encode())
            return
        PassManager.parse("builtin.module(gpu-module-to-binary{format=llvm})").run(module.operation)
        binaries = [op for op in module.body.operations if op.operation.name == "gpu.binary"]
        for number, binary in enumerate(binaries):
            write(f"{made}.{number}.bc", bytes(gpu.ObjectAttr(binary.operation.attributes["objects"][0]).object))


def write(name: str, data: bytes) -> None:
    with open(name, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
