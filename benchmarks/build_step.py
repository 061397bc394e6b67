"""One step of the shell loop in ``benchmarks/build.py``, for which PyPI has no program: mlir-opt and mlir-translate.

    python benchmarks/build_step.py opt sm_80 SOURCE.mlir LOWERED.mlir
    python benchmarks/build_step.py kernels sm_80 JOINED.mlir LOWERED.mlir
    python benchmarks/build_step.py translate sm_80 LOWERED.mlir OUT       (OUT.0.bc, one file per gpu.module)
    python benchmarks/build_step.py nothing

The steps do what the programs would do, with upstream's passes alone: ``opt`` from tensor level, ``kernels`` of what is
in gpu.modules already (host code beside them is left out, and so is what ``aot.needs`` keeps from the chip).
``nothing`` only imports the bindings: what Python and the import take is taken off, since the programs do not need it.
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

KERNELS = (
    "nvvm-attach-target{{chip={chip} O=3}},"
    "gpu.module(convert-vector-to-scf{{full-unroll=true}},convert-vector-to-llvm),"
    "lower-affine,gpu.module(convert-scf-to-cf,expand-strided-metadata),lower-affine,"
    "gpu.module(arith-expand,math-expand-ops{{ops=clampf}},convert-gpu-to-nvvm,convert-math-to-llvm,"
    "convert-vector-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,canonicalize,cse),"
    "convert-nvvm-to-llvm,gpu.module(reconcile-unrealized-casts)"
)
PIPELINES = {"opt": OPT, "kernels": KERNELS}


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
        if step in PIPELINES:
            for op in list(module.body.operations) if step == "kernels" else ():
                if op.operation.name != "gpu.module":
                    op.operation.erase()
                else:
                    leave_out(op.operation, chip)
            PassManager.parse(f"builtin.module({PIPELINES[step].format(chip=chip)})").run(module.operation)
            write(made, str(module).encode())
            return
        PassManager.parse("builtin.module(gpu-module-to-binary{format=llvm})").run(module.operation)
        binaries = [op for op in module.body.operations if op.operation.name == "gpu.binary"]
        for number, binary in enumerate(binaries):
            write(f"{made}.{number}.bc", bytes(gpu.ObjectAttr(binary.operation.attributes["objects"][0]).object))


def leave_out(kernels: ir.Operation, chip: str) -> None:
    """Erase the kernels that need a later architecture than the chip's, or the own instructions of one (``sm_90a``)."""
    for op in list(kernels.regions[0].blocks[0].operations):
        needs = op.operation.attributes["aot.needs"].value if "aot.needs" in op.operation.attributes else chip
        if needs[-1].isalpha() or int(needs[3:]) > int(chip[3:]):
            op.operation.erase()


def write(name: str, data: bytes) -> None:
    with open(name, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
